"""Read a cluster from Spark: batch, stream, member of a group; where to begin, how much, what is committed."""
