"""Handlers that a group calls for each partition, in threads and in tasks."""
