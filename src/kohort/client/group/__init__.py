"""Group members: join, heartbeat, assignment, commit."""
