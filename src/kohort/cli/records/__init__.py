"""Commands that produce records, and commands that print consumed records."""
