"""Observation of any cluster's groups from outside: samples, commits, and a journal."""
