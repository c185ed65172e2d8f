"""Reading topics from Spark: batch, stream, and stream as a member of a group."""
