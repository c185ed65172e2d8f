"""What an application hangs on its clients to see them from the outside: Prometheus, OpenTelemetry."""
