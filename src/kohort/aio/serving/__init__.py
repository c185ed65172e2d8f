"""Run brokers: sockets, data files, log, one or several nodes in a process."""
