"""Decides for every group, and only decides."""
