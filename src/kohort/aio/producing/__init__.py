"""The producer as users call it, blocking and with asyncio."""
