"""The kinds of sinks, a module each, and the topic of dead letters."""
