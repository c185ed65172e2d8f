"""Bytes to messages and back; knows nothing of brokers or clients."""
