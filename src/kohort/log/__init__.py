"""A partition as an append-only log."""
