"""Read topics from Spark: as a batch, as a stream, and as a stream whose query is a group member."""
