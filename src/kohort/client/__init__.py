"""Cores of the clients without I/O: the engine polls them for requests and gives them the responses."""
