"""The blocking consumer and the asyncio consumer."""
