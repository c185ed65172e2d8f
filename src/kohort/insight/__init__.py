"""Reads the journal of group events: which rebalances there were, why, and who held them up."""
