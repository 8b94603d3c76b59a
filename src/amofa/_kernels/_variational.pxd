# The posterior of the variational mixture in memory: shared by its kernels, not installed.


# Pointers to the arrays of `amofa.baselines._variational.Posterior`; those of a component are at ``k`` strides.
cdef struct Arrays:
    Py_ssize_t K, q, d
    const Py_ssize_t *n_live
    double *means             # (K, d)
    double *loadings          # (K, q, d)
    double *mean_variances    # (K, d)
    double *weighted          # (K, 1 + q, 1 + q)
    double *plain             # (K, 1 + q, 1 + q)
    double *log_determinants  # (K)
    double *rates             # (K, q)
    double *noise             # (K, d)
    double *center            # (d)
    double *spread            # (d)


cdef Arrays view_posterior(posterior) except *
