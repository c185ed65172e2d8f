"""Protocol logic of consumer, producer and admin clients, without I/O: the engine collects their requests and delivers
the responses.
"""
