"""Analysis of groups, from journal entries and snapshots: rebalances, causes, assignments, lag and health."""
