"""Sources of OAuth tokens, and those SASL logins that need slow computation, the network or user code."""
