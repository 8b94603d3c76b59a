"""Helpers for tests of EM on the profile likelihood."""

from reference import random_mixture

from amofa._noise import Noise

# Those that wide tables have, too.
KINDS = [kind for kind in Noise if not kind.is_joint]


def tied(parameters, noise):
    """Return the same mixture with uniquenesses tied in one way."""
    result = parameters.copy()
    if noise == "shared":
        result.uniquenesses[:] = result.uniquenesses[0]
    if noise == "isotropic":
        result.uniquenesses[:] = result.uniquenesses.mean(axis=1, keepdims=True)
    if noise == "scaled":
        result.uniquenesses[:] = result.uniquenesses[0] * result.uniquenesses.mean(axis=1, keepdims=True)
    return result


def rough_start(rng, x, K, factors, noise, size=1.0):
    """Components about K rows drawn, with arbitrary loadings of the size."""
    parameters = random_mixture(rng, K, x.shape[1], factors)
    parameters.loadings[:] *= size
    parameters.uniquenesses[:] *= size**2
    parameters.means[:] = x[rng.choice(len(x), K, replace=False)]
    return tied(parameters, noise)
