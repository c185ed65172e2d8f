"""Observation of any cluster's groups from outside: snapshots, committed offsets and a journal."""
