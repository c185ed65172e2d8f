"""The consumer as users call it, blocking and with asyncio."""
