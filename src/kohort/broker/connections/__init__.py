"""Client connections: frames, logins, quotas, memory limits, sent answers."""
