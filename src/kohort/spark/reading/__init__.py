"""Read topics from Spark: as a batch, as a stream, or as a stream whose query is a group member."""
