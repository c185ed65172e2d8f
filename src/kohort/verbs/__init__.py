"""Cluster operations of commands and the console: describe, predict, peek, reset offsets."""
