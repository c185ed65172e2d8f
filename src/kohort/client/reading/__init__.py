"""Read partitions: where to read, from whom, what was fetched."""
