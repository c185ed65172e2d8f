"""Client connections: frames, logins, quotas, memory limits, sending of responses."""
