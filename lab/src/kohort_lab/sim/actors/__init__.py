"""Actors of a simulated run: brokers, clients, administrators, faults."""
