"""The producer, blocking and for asyncio."""
