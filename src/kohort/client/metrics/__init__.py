"""Metrics of a client, always recorded."""
