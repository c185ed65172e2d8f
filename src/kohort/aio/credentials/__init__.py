"""SASL logins of clients that need slow computation, the network or user code, and sources of OAuth tokens."""
