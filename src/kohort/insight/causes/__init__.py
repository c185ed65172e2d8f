"""Causes of rebalances: catalogue entries and the functions that find each cause, for all protocols."""
