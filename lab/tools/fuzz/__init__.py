"""Fuzzing of all inputs from clients, disks and users: random inputs, and inputs chosen by coverage."""
