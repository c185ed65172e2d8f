"""Logins of clients that need slow computation, the network or user code; sources of tokens."""
