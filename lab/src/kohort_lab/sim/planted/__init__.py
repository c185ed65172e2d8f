"""Planted bugs: negative controls of the simulator, off in normal runs."""
