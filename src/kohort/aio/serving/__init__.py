"""Run one or several brokers (nodes) in a process: sockets, data files and log output."""
