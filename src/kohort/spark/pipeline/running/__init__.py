"""Runs a pipeline: locks it for one process, processes its micro-batches, and counts its rows."""
