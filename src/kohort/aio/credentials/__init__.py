"""Where a client's tokens come from, and logins that take more than bytes: slow work, the network, users' code."""
