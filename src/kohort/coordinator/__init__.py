"""Group coordinator and transaction coordinator. Their decisions on groups, offsets and transactions do no I/O."""
