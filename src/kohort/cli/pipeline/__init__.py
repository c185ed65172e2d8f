"""Commands about Spark pipelines."""
