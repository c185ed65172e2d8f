"""Commands that produce records, and that print consumed records."""
