"""Causes of rebalances under both group protocols: catalogue entries, and functions that find a rebalance's cause."""
