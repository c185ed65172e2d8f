"""Causes of rebalances: the catalogue entry of each cause beside the finders of all protocols that conclude it."""
