"""Failed records of handler functions: attempts, headers, and the order of records by key."""
