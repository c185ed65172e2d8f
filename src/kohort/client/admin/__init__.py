"""Admin operations on topics, groups, offsets, configurations and transactions."""
