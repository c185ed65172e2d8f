"""Consumer, producer and admin clients without I/O. The request engine routes their requests to connections."""
