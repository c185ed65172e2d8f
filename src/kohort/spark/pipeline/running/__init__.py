"""Runs a pipeline: process, micro-batches and ledger."""
