"""Simulator: brokers, clients, network, disk and faults under one seed."""
