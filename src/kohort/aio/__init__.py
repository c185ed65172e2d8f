"""All input and output: sockets, clocks, threads. No other package waits."""
