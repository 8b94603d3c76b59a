"""How work is shared among threads: how many there may be, the pool, and BLAS held to one thread."""
