"""Decoding of record values into columns, and handling of bad values."""
