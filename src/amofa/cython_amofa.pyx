"""Bodies of the public C-level functions: thin wrappers of the kernels that the Python code uses, too.

They are documented in amofa/cython_amofa.pxd. Consumers import them from one module, so that its parts are included.
"""

import numpy as np

from amofa._kernels._mixture cimport Parameters, check_layout, n_parameters_stored, view_parameters

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

# Status codes; see the .pxd.
cdef enum:
    BAD_ARGUMENT = -1
    NO_ROWS = -2
    TOO_SHORT = -3
cdef enum:
    # Scratch of one row; see `view_scratch_of`.
    FEW = 8
# The length of arrays of callers that state none.
cdef Py_ssize_t UNKNOWN = PY_SSIZE_T_MAX

include "_cython_amofa/mixture.pxi"
include "_cython_amofa/rows.pxi"
include "_cython_amofa/posterior.pxi"
include "_cython_amofa/sums.pxi"
include "_cython_amofa/m_step.pxi"


def prepared_mixture(
    const double[::1] parameters not None,  # IN   (2 K + 2 K d + P d)
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    Py_ssize_t n_features,
):
    """Return a prepared mixture in a new array, for C-level functions.

    Parameters
    ----------
    parameters : (2 K + 2 K d + P d,) float64
        As in `amofa._parameters.Parameters.buffer`.
    offsets : (K + 1,) intp
        Start of the factors of each component; the last entry is the number of all factors.
    n_features : int

    Returns
    -------
    ndarray of float64
        The argument ``mixture`` of the functions in amofa/cython_amofa.pxd.

    Raises
    ------
    ValueError
        If offsets do not increase from 0, there is no feature, or `parameters` has the wrong length.
    FloatingPointError
        If the covariance matrix of a component is numerically singular.
    """
    cdef Py_ssize_t K = offsets.shape[0] - 1
    cdef Parameters view
    cdef double[::1] mixture
    cdef int status
    check_layout(offsets, n_features)
    if parameters.shape[0] != n_parameters_stored(K, n_features, &offsets[0]):
        raise ValueError("parameters has the wrong length for these offsets and features")
    prepared = np.zeros(mixture_size(K, n_features, &offsets[0]))
    mixture = prepared
    view = view_parameters(K, n_features, <double *> &parameters[0])
    with nogil:
        status = prepare_t_mixture(K, n_features, &offsets[0], view.weights, view.degrees_of_freedom, view.means,
                                   view.loadings, view.uniquenesses, &mixture[0], mixture.shape[0])
    if status:
        raise FloatingPointError(f"the covariance of component {status - 1} is numerically singular")
    return prepared
