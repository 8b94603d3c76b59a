"""Threads: their number, the pool that shares work, and BLAS limited to one thread."""
