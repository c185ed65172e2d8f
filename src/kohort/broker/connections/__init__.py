"""Connections: frames, logins, quotas, memory, answers."""
