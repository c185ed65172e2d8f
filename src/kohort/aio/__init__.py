"""Input and output of clients and brokers: sockets, clocks, threads. The other packages never block."""
