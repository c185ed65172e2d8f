"""The only package that waits: sockets, clocks, threads."""
