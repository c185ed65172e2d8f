"""Group coordinator and transaction coordinator. They decide on groups, offsets and transactions without I/O."""
