"""Write records: into batches, numbered, in transactions, to the leaders of their partitions."""
