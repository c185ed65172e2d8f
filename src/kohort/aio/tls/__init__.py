"""TLS on both sides of a connection: between the sockets and the machines, which see plain bytes alone."""
