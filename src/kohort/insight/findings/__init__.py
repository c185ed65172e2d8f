"""Findings about groups with one JSON schema, for commands, metrics and pages."""
