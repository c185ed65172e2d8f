"""Run a pipeline: process, micro-batches, ledger."""
