"""Requests to brokers: connections, request states, retries, cluster metadata."""
