"""Group coordinator and transaction coordinator: decisions on groups, offsets and transactions, free of I/O."""
