"""What each request is checked for before its handler sees it, one guard per API."""
