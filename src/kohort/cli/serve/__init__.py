"""Commands that serve: a broker, the console, metrics."""
