"""Sinks of a pipeline, with one module for each kind of sink, and dead letters."""
