"""Crash rounds: what is killed and damaged while clients work, and what they saw of it."""
