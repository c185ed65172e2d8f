"""Faults between clients and brokers, and their effects on each client face: lab/tools/faults/README.md."""
