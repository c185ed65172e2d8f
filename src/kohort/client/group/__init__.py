"""Be a member of a group: join, heartbeat, assign, commit."""
