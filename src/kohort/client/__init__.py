"""Protocol logic of consumer, producer and admin clients, without I/O: the engine sends their requests."""
