"""Checks of a simulated run, most of them after every event."""
