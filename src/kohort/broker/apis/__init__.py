"""The APIs that the broker serves: one module for each, or for a few that share one thought."""
