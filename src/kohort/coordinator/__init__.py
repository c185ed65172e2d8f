"""Group coordinator and transaction coordinator. They decide on requests and timers, and do no I/O."""
