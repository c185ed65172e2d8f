"""JSON values to columns, without an object for each (ADR 13)."""
