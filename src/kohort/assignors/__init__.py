"""Assignors (partition assignment strategies): pure functions."""
