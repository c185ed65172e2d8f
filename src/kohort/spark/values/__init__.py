"""From bytes to columns: formats of values, and what becomes of bad ones."""
