"""Metrics of a client, cheap enough to be always on."""
