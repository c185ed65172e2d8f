"""Checks of a simulated run; most checks run after every event."""
