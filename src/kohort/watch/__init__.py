"""Looks at the groups of any cluster from the outside: samples, commits seen, and the journal of what happened."""
