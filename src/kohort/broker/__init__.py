"""The broker as a machine: bytes and time in, bytes and wake-ups out."""
