"""Compile kernels to machine code, and keep it on disk."""
