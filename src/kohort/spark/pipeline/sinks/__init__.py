"""Kinds of sinks, one module each, and dead letters."""
