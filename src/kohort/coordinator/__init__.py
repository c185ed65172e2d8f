"""Decides for every group, and only decides (ARCHITECTURE.md, "The one idea")."""
