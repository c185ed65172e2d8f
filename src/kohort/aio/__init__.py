"""All input and output of clients and brokers: sockets, clocks, threads. Other packages never block."""
