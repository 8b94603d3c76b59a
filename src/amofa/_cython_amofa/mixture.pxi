# A prepared mixture: its layout, how it is made and checked, and what it gives back.

from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

import os

from amofa._kernels._mixture cimport (
    Parameters, Prepared, block_rows, is_too_large, n_parameters_stored, prepare_mixture as prepare_all,
    prepared_length, scratch_length_of, view_prepared)
from amofa._kernels._newton cimport is_space_too_large
from amofa._kernels._standard cimport maximize_length
from amofa._kernels._statistics cimport sums_length

# A prepared mixture begins with this, and the K + 1 offsets. Sizes are there since a call with one row takes less time
# than to compute them.
cdef struct Header:
    Py_ssize_t mark                # MARK
    Py_ssize_t token               # TOKEN
    Py_ssize_t size                # of the whole
    Py_ssize_t n_components
    Py_ssize_t n_features
    Py_ssize_t block_rows
    Py_ssize_t rows_work_size      # these are what the functions of their names return
    Py_ssize_t missing_work_size
    Py_ssize_t statistics_size
    Py_ssize_t scatter_size
    Py_ssize_t maximize_work_size

# Its last byte is the version of the layout.
cdef Py_ssize_t MARK = 0x616d6604
# What a file, or another process, does not have: layouts and ways to compute differ between builds and processors.
cdef Py_ssize_t TOKEN = int.from_bytes(os.urandom(sizeof(Py_ssize_t) - 1), "little")


cdef Py_ssize_t mixture_size(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets,
) noexcept nogil:
    cdef Py_ssize_t k
    if n_components < 1 or n_features < 1 or offsets == NULL or offsets[0] != 0:
        return BAD_ARGUMENT
    for k in range(n_components):
        if offsets[k + 1] < offsets[k]:
            return BAD_ARGUMENT
    if is_too_large(n_components, n_features, offsets[n_components]):
        return BAD_ARGUMENT
    return header_size(n_components) + prepared_length(n_components, n_features, offsets)


cdef Py_ssize_t header_size(Py_ssize_t K) noexcept nogil:
    """Return the number of doubles that hold a header and its offsets."""
    return (<Py_ssize_t> (sizeof(Header) + (K + 1) * sizeof(Py_ssize_t)) + 7) // 8


cdef inline Header *header_of(const double *mixture) noexcept nogil:
    return <Header *> mixture


cdef inline Py_ssize_t *offsets_of(const double *mixture) noexcept nogil:
    return <Py_ssize_t *> (header_of(mixture) + 1)


cdef int prepare_mixture(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets, const double *weights,
    const double *means, const double *loadings, const double *uniquenesses, double *mixture,
) noexcept nogil:
    return prepare_t_mixture(n_components, n_features, offsets, weights, NULL, means, loadings, uniquenesses, mixture,
                             UNKNOWN)


cdef int prepare_mixture_checked(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets, const double *weights,
    const double *means, const double *loadings, const double *uniquenesses, double *mixture, Py_ssize_t mixture_length,
) noexcept nogil:
    return prepare_t_mixture(n_components, n_features, offsets, weights, NULL, means, loadings, uniquenesses, mixture,
                             mixture_length)


cdef int prepare_t_mixture(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets, const double *weights,
    const double *degrees_of_freedom, const double *means, const double *loadings, const double *uniquenesses,
    double *mixture, Py_ssize_t mixture_length,
) noexcept nogil:
    cdef Py_ssize_t size = mixture_size(n_components, n_features, offsets)
    cdef Parameters parameters
    cdef Prepared prepared
    cdef int status
    if size < 0 or weights == NULL or means == NULL or uniquenesses == NULL or mixture == NULL:
        return BAD_ARGUMENT
    if loadings == NULL and offsets[n_components]:
        return BAD_ARGUMENT
    if mixture_length < size:
        return TOO_SHORT
    set_header(header_of(mixture), size, n_components, n_features, offsets, degrees_of_freedom)
    parameters.weights, parameters.means = <double *> weights, <double *> means
    parameters.degrees_of_freedom = <double *> degrees_of_freedom
    parameters.loadings, parameters.uniquenesses = <double *> loadings, <double *> uniquenesses
    prepared = view_mixture(mixture)
    status = <int> prepare_all(&parameters, &prepared)
    if status:
        header_of(mixture).mark = 0
    return status


cdef void set_header(
    Header *header, Py_ssize_t size, Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets,
    const double *degrees_of_freedom,
) noexcept nogil:
    cdef Py_ssize_t k, most_factors = 0
    header.mark, header.token, header.size = MARK, TOKEN, size
    header.n_components, header.n_features = K, d
    memcpy(header + 1, offsets, (K + 1) * sizeof(Py_ssize_t))
    header.block_rows = block_rows(d)
    header.rows_work_size = scratch_length_of(header.block_rows, K, d, offsets) + header.block_rows * d
    header.missing_work_size = (
        header.rows_work_size + 2 * d + n_parameters_stored(K, d, offsets) + size - header_size(K)
        + scratch_length_of(FEW, K, d, offsets))
    header.statistics_size = sums_length(K, d, offsets, False)
    header.scatter_size = BAD_ARGUMENT if is_space_too_large(d, K, K * d, -1) else sums_length(K, d, NULL, True)
    for k in range(K):
        most_factors = max(most_factors, offsets[k + 1] - offsets[k])
        # EM over factors is for normal components.
        if degrees_of_freedom != NULL and degrees_of_freedom[k] != INFINITY:
            header.statistics_size = BAD_ARGUMENT
    header.maximize_work_size = maximize_length(d, most_factors)


cdef bint is_mixture(const double *mixture) noexcept nogil:
    return mixture != NULL and header_of(mixture).mark == MARK and header_of(mixture).token == TOKEN


cdef int check_mixture(const double *mixture, Py_ssize_t length) noexcept nogil:
    cdef const Header *header
    if mixture == NULL:
        return BAD_ARGUMENT
    if length < header_size(1):
        return TOO_SHORT
    if not is_mixture(mixture):
        return BAD_ARGUMENT
    header = header_of(mixture)
    if length < header.size:
        return TOO_SHORT
    if mixture_size(header.n_components, header.n_features, offsets_of(mixture)) != header.size:
        return BAD_ARGUMENT
    return 0


cdef Prepared view_mixture(const double *mixture) noexcept nogil:
    """What the kernels take; they do not write to it, but where it is prepared."""
    cdef Py_ssize_t K = header_of(mixture).n_components
    return view_prepared(K, header_of(mixture).n_features, offsets_of(mixture), <double *> mixture + header_size(K))


cdef Py_ssize_t n_components(const double *mixture) noexcept nogil:
    return header_of(mixture).n_components if is_mixture(mixture) else BAD_ARGUMENT


cdef Py_ssize_t n_features(const double *mixture) noexcept nogil:
    return header_of(mixture).n_features if is_mixture(mixture) else BAD_ARGUMENT


cdef Py_ssize_t n_factors(const double *mixture, Py_ssize_t k) noexcept nogil:
    cdef const Py_ssize_t *offsets
    if not has_component(mixture, k):
        return BAD_ARGUMENT
    offsets = offsets_of(mixture)
    return offsets[k + 1] - offsets[k]


cdef bint has_component(const double *mixture, Py_ssize_t k) noexcept nogil:
    return 0 <= k < n_components(mixture)


cdef int mixture_weights(const double *mixture, double *weights, Py_ssize_t weights_length) noexcept nogil:
    return give_values(mixture, 0, view_mixture(mixture).weights if is_mixture(mixture) else NULL,
                       n_components(mixture), weights, weights_length)


cdef int mixture_degrees_of_freedom(
    const double *mixture, double *degrees_of_freedom, Py_ssize_t degrees_of_freedom_length,
) noexcept nogil:
    return give_values(mixture, 0, view_mixture(mixture).degrees_of_freedom if is_mixture(mixture) else NULL,
                       n_components(mixture), degrees_of_freedom, degrees_of_freedom_length)


cdef int component_mean(
    const double *mixture, Py_ssize_t k, double *mean, Py_ssize_t mean_length,
) noexcept nogil:
    cdef Py_ssize_t d = n_features(mixture)
    return give_values(mixture, k, view_mixture(mixture).means + k * d if has_component(mixture, k) else NULL, d, mean,
                       mean_length)


cdef int component_loadings(
    const double *mixture, Py_ssize_t k, double *loadings, Py_ssize_t loadings_length,
) noexcept nogil:
    cdef Py_ssize_t d = n_features(mixture)
    cdef Prepared prepared
    if not has_component(mixture, k):
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    return give_values(mixture, k, prepared.loadings + prepared.offsets[k] * d, n_factors(mixture, k) * d, loadings,
                       loadings_length)


cdef int component_uniquenesses(
    const double *mixture, Py_ssize_t k, double *uniquenesses, Py_ssize_t uniquenesses_length,
) noexcept nogil:
    cdef Py_ssize_t d = n_features(mixture), j
    cdef int status = give_values(
        mixture, k, view_mixture(mixture).inverse_uniquenesses + k * d if has_component(mixture, k) else NULL, d,
        uniquenesses, uniquenesses_length)
    if status == 0:
        for j in range(d):
            uniquenesses[j] = 1.0 / uniquenesses[j]
    return status


cdef int give_values(
    const double *mixture, Py_ssize_t k, const double *values, Py_ssize_t size, double *out, Py_ssize_t length,
) noexcept nogil:
    """Copy so many values of component k to an output."""
    if not has_component(mixture, k) or (out == NULL and size):
        return BAD_ARGUMENT
    if length < size:
        return TOO_SHORT
    if size:
        memcpy(out, values, size * sizeof(double))
    return 0


cdef int component_covariance(
    const double *mixture, Py_ssize_t k, double *covariance, Py_ssize_t covariance_length,
) noexcept nogil:
    cdef Py_ssize_t d = n_features(mixture), i, j, q
    cdef Prepared prepared
    cdef const double *row
    if not has_component(mixture, k) or covariance == NULL:
        return BAD_ARGUMENT
    if covariance_length // d < d:
        return TOO_SHORT
    prepared = view_mixture(mixture)
    memset(covariance, 0, d * d * sizeof(double))
    for i in range(d):
        covariance[i * d + i] = 1.0 / prepared.inverse_uniquenesses[k * d + i]
    for q in range(prepared.offsets[k], prepared.offsets[k + 1]):
        row = prepared.loadings + q * d
        for i in range(d):
            for j in range(d):
                covariance[i * d + j] += row[i] * row[j]
    return 0
