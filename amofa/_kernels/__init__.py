"""Compiled kernels. Their sources are in src/amofa/_kernels."""
