"""Decides for every group, and only decides (design section 8)."""
