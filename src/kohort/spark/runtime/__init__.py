"""Java, Python and the session that Spark needs."""
