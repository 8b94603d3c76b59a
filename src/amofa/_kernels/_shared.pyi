# Cython's own functions for the other compiled modules: Python calls none of them.
