"""The consumer, blocking and for asyncio."""
