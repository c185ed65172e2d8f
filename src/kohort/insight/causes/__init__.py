"""Causes of rebalances of all protocols: catalogue entries, and functions that find the cause of a rebalance."""
