"""Tools for tests of kohort's I/O-free machines: an in-memory network loop and a scripted broker."""
