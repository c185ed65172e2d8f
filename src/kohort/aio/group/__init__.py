"""Consumer groups that call a handler for each partition, in threads or asyncio tasks."""
