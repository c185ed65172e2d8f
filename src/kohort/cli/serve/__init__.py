"""Commands that run a server: the broker, the console, or an endpoint of metrics."""
