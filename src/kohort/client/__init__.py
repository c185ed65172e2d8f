"""Protocol logic of consumer, producer and admin clients, without I/O: the request engine sends their requests."""
