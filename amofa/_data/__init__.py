"""Rows: checked, standardized, without repeats, and in chunks for the kernels."""
