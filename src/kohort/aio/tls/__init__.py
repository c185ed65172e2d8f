"""TLS of clients and brokers: between the sockets and the protocol logic, which gets decrypted bytes."""
