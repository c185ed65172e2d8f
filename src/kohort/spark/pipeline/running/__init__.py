"""Running a pipeline: process, micro-batches, ledger."""
