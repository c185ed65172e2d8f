"""Bounds of the work and of the answer of each API: declared here, obeyed by the broker, measured by a bench."""
