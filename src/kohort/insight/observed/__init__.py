"""What can be told of the groups of any cluster by who only looks: records of ``__consumer_offsets`` to a journal, and
generations seen to rebalances with inferred causes."""
