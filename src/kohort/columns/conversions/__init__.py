"""Conversions of text and JSON values to column types, by the rules of Spark's readers."""
