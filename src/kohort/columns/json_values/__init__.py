"""JSON values to columns, without an object for each."""
