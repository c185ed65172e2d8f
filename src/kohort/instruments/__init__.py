"""Instrumentation of an application's clients: Prometheus, OpenTelemetry."""
