"""Threads: how many, and how work is shared among them."""
