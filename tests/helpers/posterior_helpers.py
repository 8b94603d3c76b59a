"""The E-step kernel on rows of any mixture, rows first."""

from typing import NamedTuple

import numpy as np

from amofa._kernels import _posterior
from amofa._parameters import Component, Evaluator, Parameters


class Posterior(NamedTuple):
    log_density: np.ndarray  # (n,)
    log_joint: np.ndarray  # (n, K)
    responsibilities: np.ndarray  # (n, K)
    scores: np.ndarray  # (n, P)


def columns(x):
    """Rows (n, d) as the kernels want them, (d, n)."""
    return np.ascontiguousarray(x.T)


def posterior(parameters, x):
    """All outputs of the kernel, rows first; NaN where it has not written."""
    mixture, n = Evaluator(parameters), len(x)
    log_density = np.full(n, np.nan)
    outputs = [np.full((rows, n), np.nan) for rows in (parameters.n_components,) * 2 + (len(parameters.loadings),)]
    _posterior.posterior(columns(x), parameters.offsets, mixture.prepared, log_density, *outputs, mixture.work)
    return Posterior(log_density, *(a.T for a in outputs))


def one_component(loadings, uniquenesses, mean=None):
    """A mixture of one component."""
    loadings, uniquenesses = np.asarray(loadings, dtype=float), np.asarray(uniquenesses, dtype=float)
    mean = np.zeros(len(uniquenesses)) if mean is None else mean
    return Parameters.from_components([Component(1.0, mean, loadings, uniquenesses)])
