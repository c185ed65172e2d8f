"""Sinks of a pipeline, one module for each kind, and dead letters."""
