"""Faults between clients and brokers, and what becomes of each face of the client: lab/tools/faults/README.md."""
