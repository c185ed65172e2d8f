"""Kernels between record batches and Arrow."""
