"""Findings about groups: one JSON schema for commands, metrics and web pages."""
