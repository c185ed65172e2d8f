"""Find or start what Spark needs: Java, Python, a session, a server of Spark Connect."""
