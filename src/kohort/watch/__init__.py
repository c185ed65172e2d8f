"""Observation of the groups of any cluster from outside: snapshots, committed offsets and a journal."""
