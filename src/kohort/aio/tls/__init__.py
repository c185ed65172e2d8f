"""TLS of clients and brokers: decrypt between the sockets and the protocol logic."""
