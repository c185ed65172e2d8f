"""Java, Python workers and the SparkSession."""
