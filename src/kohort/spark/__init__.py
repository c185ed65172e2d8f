"""PySpark source, sink and pipelines over consumer groups."""
