"""Simulated worlds, each with its actors and checks."""
