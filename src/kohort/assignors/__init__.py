"""Partition assignment strategies: pure functions."""
