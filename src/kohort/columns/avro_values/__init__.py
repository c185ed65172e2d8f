"""Avro values to Arrow columns: schemas, programs for each pair of schemas, and the kernel that runs them."""
