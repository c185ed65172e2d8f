"""Membership of consumers in groups: join, heartbeat, assignment, offset commit."""
