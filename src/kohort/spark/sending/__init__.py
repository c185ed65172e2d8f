"""Write rows to topics from Spark."""
