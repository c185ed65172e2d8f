"""Commands that run a server: a broker, the console, metrics."""
