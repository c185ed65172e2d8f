"""Write to a cluster from Spark."""
