"""Compilation of kernels to machine code, with a cache on disk."""
