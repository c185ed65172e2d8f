"""Coordinator of groups, offsets and transactions: decisions without input or output."""
