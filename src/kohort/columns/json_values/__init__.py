"""JSON values to columns, without an object per value (ADR 13)."""
