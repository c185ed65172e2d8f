"""Analysis of the journal of group events: rebalances, their causes, assignments, lag and health."""
