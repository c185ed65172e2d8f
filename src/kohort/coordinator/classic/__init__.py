"""Classic group protocol."""
