"""Prometheus metrics of consumer groups and of kohort's own broker, and the ``/metrics`` page."""
