"""The broker as a state machine without I/O: events in, bytes and wake-up times out."""
