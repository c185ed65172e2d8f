"""Run a pipeline: one run at a time, batch by batch or as one stateful stream."""
