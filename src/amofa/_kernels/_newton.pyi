# Its functions are for the other kernels: Python calls none of them.
