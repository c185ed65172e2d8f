"""The blocking producer and the asyncio producer."""
