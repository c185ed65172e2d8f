"""Journal of any cluster's groups, from the records of ``__consumer_offsets``, with inferred causes of rebalances."""
