"""Sources of OAuth tokens, and SASL logins of clients that need slow computation, the network or user code."""
