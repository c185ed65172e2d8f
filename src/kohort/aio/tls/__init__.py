"""TLS of clients and brokers, between the sockets and the machines, which see decrypted bytes."""
