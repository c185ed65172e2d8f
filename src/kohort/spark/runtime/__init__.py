"""Finds Java, prepares Python workers, and creates the SparkSession."""
