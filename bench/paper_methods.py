"""The methods that the paper's experiments compare, by the names under which results are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

import amofa
from amofa.baselines import gaussian_per_class, imofa, ulfmm, vbmofa
from amofa.classes import fit_classes

FloatArray = NDArray[np.float64]
Labels = NDArray[np.integer]

# Maximum number of components of scikit-learn's mixtures, and starts of EM for each number.
MOST_COMPONENTS = 10
STARTS = 10
# Maximum number of factors of VBMoFA: its time grows with their cube, and its own choice is below.
MOST_FACTORS = 10
# Smallest uniqueness of a class, as a share of the variances in all classes.
FLOOR = 1e-2


class Mixture(Protocol):
    """The interface of all fitted methods."""

    def predict(self, X: ArrayLike, /) -> NDArray[np.integer]: ...

    def score_samples(self, X: ArrayLike, /) -> FloatArray: ...


# Makes a mixture from rows, variances (d,) that give their units (those of all classes; None for their own), and a
# seed.
Fit = Callable[[FloatArray, FloatArray | None, int], Mixture]


class Method(NamedTuple):
    """A method: its name in tables, its settings, how it clusters, and how it models classes."""

    title: str
    about: str
    cluster: Callable[[FloatArray, int], Mixture] | None
    classes: Callable[[FloatArray, Labels, int], Sequence[Mixture]] | None


# ---- fits of one table -----------------------------------------------------------------------------------------------


def floor_of(variances: FloatArray | None) -> FloatArray | None:
    return None if variances is None else FLOOR * variances


def fit_amofa(X: FloatArray, variances: FloatArray | None, seed: int) -> Mixture:
    return amofa.fit(X, prior_scale=variances)


def fit_paper(X: FloatArray, variances: FloatArray | None, seed: int) -> Mixture:
    return amofa.fit(X, search="paper", noise_floor=floor_of(variances))


def fit_imofa(X: FloatArray, variances: FloatArray | None, seed: int) -> Mixture:
    """Fit with 70 percent of the rows for training, with the same permutation for all sets of the same size."""
    order = np.random.default_rng(0).permutation(len(X))
    n = round(0.7 * len(X))
    return imofa(X[order[:n]], validation=X[order[n:]], noise_floor=floor_of(variances))


def fit_ulfmm(X: FloatArray, variances: FloatArray | None, seed: int) -> Mixture:
    """Fit full covariances for clustering and diagonal ones for classes, as in the paper."""
    return ulfmm(X, max_components=20, covariance="full" if variances is None else "diag", random_state=seed)


def fit_vbmofa(X: FloatArray, variances: FloatArray | None, seed: int) -> Mixture:
    most = min(X.shape[1], MOST_FACTORS)
    return vbmofa(X, max_factors=most, noise_floor=floor_of(variances), random_state=seed)


class Scaled(NamedTuple):
    """A mixture for rows in units of given standard deviations."""

    mixture: GaussianMixture | BayesianGaussianMixture
    deviations: FloatArray

    def predict(self, X: FloatArray) -> NDArray[np.integer]:
        return self.mixture.predict(X / self.deviations)

    def score_samples(self, X: FloatArray) -> FloatArray:
        return self.mixture.score_samples(X / self.deviations) - np.log(self.deviations).sum()


def scaled(X: FloatArray, variances: FloatArray | None) -> tuple[FloatArray, FloatArray, float]:
    """Return rows in units of standard deviations, these, and the ridge for variances in these units."""
    deviations = np.sqrt(X.var(axis=0) if variances is None else variances)
    return X / deviations, deviations, 1e-6 if variances is None else FLOOR


def fit_bic(X: FloatArray, variances: FloatArray | None, seed: int) -> Mixture:
    rows, deviations, ridge = scaled(X, variances)
    most = min(MOST_COMPONENTS, len(rows))
    # With k-means only, the default, ten starts are hardly better than one.
    options = {"init_params": "k-means++", "n_init": STARTS, "reg_covar": ridge, "random_state": seed}
    fits = [GaussianMixture(K, **options).fit(rows) for K in range(1, most + 1)]
    return Scaled(min(fits, key=lambda mixture: mixture.bic(rows)), deviations)


def fit_bayesian(kind: str, X: FloatArray, variances: FloatArray | None, seed: int) -> Mixture:
    rows, deviations, ridge = scaled(X, variances)
    mixture = BayesianGaussianMixture(
        n_components=min(MOST_COMPONENTS, len(rows)),
        weight_concentration_prior_type=kind,
        reg_covar=ridge,
        max_iter=1000,
        random_state=seed,
    )
    return Scaled(mixture.fit(rows), deviations)


# ---- classes ---------------------------------------------------------------------------------------------------------


def one_by_one(fit: Fit, X: FloatArray, y: Labels, seed: int) -> list[Mixture]:
    """Fit a mixture to each class, in units of the variances in all classes; constant columns get their mean."""
    variances = X.var(axis=0)
    constant = np.ptp(X, axis=0) == 0
    variances[constant] = variances[~constant].mean()
    return [fit(X[y == c], variances, seed) for c in range(int(y.max()) + 1)]


def borrowing(X: FloatArray, y: Labels, seed: int) -> Sequence[Mixture]:
    return fit_classes(X, y).models


def single_gaussians(covariance: str, X: FloatArray, y: Labels, seed: int) -> Sequence[Mixture]:
    return gaussian_per_class(X, y, covariance=covariance).models


def classify(models: Sequence[Mixture], X: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the class with the largest density for every row; log densities are (C, n), in nats."""
    densities = np.stack([model.score_samples(X) for model in models])
    return densities.argmax(axis=0), densities


# ---- what was found --------------------------------------------------------------------------------------------------


def n_components(model: Mixture, X: FloatArray) -> int:
    """Count components; in scikit-learn's Bayesian mixtures, which remove none, those that have rows."""
    if isinstance(model, Scaled):
        bayesian = isinstance(model.mixture, BayesianGaussianMixture)
        return len(np.unique(model.predict(X))) if bayesian else model.mixture.n_components
    return model.n_components


def n_factors(model: Mixture) -> list[int]:
    return [] if isinstance(model, Scaled) else model.n_factors.tolist()


def both(title: str, fit: Fit, about: str) -> Method:
    """Make a method that clusters rows, and models classes one by one."""
    return Method(title, about, lambda X, seed: fit(X, None, seed), partial(one_by_one, fit))


METHODS: dict[str, Method] = {
    "amofa": both("amofa", fit_amofa, "`amofa.fit(X)`; for classes with `prior_scale`, the variances in all classes"),
    "amofa-paper": both("AMoFA, paper", fit_paper, '`amofa.fit(X, search="paper")`'),
    "amofa-classes": Method(
        "amofa, classes together",
        "`amofa.classes.fit_classes`: classes borrow covariance",
        None,
        borrowing,
    ),
    "imofa": both("IMoFA-L", fit_imofa, "`amofa.baselines.imofa`, 30 % of the rows for validation"),
    "vbmofa": both("VBMoFA", fit_vbmofa, f"`amofa.baselines.vbmofa`, at most {MOST_FACTORS} factors"),
    "ulfmm": both(
        "ULFMM", fit_ulfmm, "`amofa.baselines.ulfmm` from 20 components; full covariances, for classes diagonal ones"
    ),
    "mog-d": Method("MoG-D", "one diagonal Gaussian per class", None, partial(single_gaussians, "diag")),
    "mog-f": Method("MoG-F", "one full Gaussian per class", None, partial(single_gaussians, "full")),
    "gmm-bic": both(
        "GMM, BIC",
        fit_bic,
        f"scikit-learn's GaussianMixture of 1 to {MOST_COMPONENTS} components, {STARTS} starts, the least BIC",
    ),
    "gmm-variational": both(
        "variational GMM",
        partial(fit_bayesian, "dirichlet_distribution"),
        f"scikit-learn's BayesianGaussianMixture of at most {MOST_COMPONENTS} components, finite",
    ),
    "gmm-dp": both(
        "Dirichlet-process GMM",
        partial(fit_bayesian, "dirichlet_process"),
        f"scikit-learn's BayesianGaussianMixture of at most {MOST_COMPONENTS} components, Dirichlet process",
    ),
}
CLUSTERING = [name for name, method in METHODS.items() if method.cluster]
CLASSIFIERS = [name for name, method in METHODS.items() if method.classes]
