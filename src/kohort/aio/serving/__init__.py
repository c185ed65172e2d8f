"""Run brokers: sockets, files, log, one or several nodes in a process."""
