"""Runs a pipeline: its process, its micro-batches, and its ledger."""
