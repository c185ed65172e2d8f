"""Faults between clients and brokers, and what becomes of each face of the client: tools/faults/README.md."""
