"""Host the broker: sockets, files, its log, one process or several nodes in it."""
