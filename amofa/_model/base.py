"""The part of a model that needs no rows: parameters, report, draws, summary."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._background import Background
from amofa._data.checks import RandomState, check_random_state
from amofa._data.dataframes import check_feature_names
from amofa._data.npz import write_arrays
from amofa._model.background import draw
from amofa._model.conditional import fill
from amofa._model.files import model_arrays
from amofa._model.from_arrays import parameters_from_arrays
from amofa._model.summary import summarize
from amofa._model.tails import Generator, stretches
from amofa._parameters import Parameters
from amofa._typing import FloatArray
from amofa.criterion import n_parameters
from amofa.handle import CythonHandle
from amofa.history import FitReport, Step


class BaseMixture:
    """The part of `MixtureOfFactorAnalyzers` that needs no rows. Its arrays are read-only."""

    _parameters: Parameters
    _report: FitReport | None
    _feature_names: tuple[str, ...] | None

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        loadings: Iterable[ArrayLike],
        uniquenesses: ArrayLike,
        feature_names: Iterable[str] | None = None,
        degrees_of_freedom: ArrayLike | None = None,
    ) -> None:
        parameters = parameters_from_arrays(weights, means, loadings, uniquenesses, degrees_of_freedom)
        self._adopt(parameters, None, check_feature_names(feature_names, parameters.n_features))

    @classmethod
    def _from_fit(
        cls, parameters: Parameters, report: FitReport | None = None, feature_names: tuple[str, ...] | None = None
    ) -> Self:
        """Make a model from parameters that are known to be valid, which are copied, and the report of the fit."""
        model = cls.__new__(cls)
        model._adopt(parameters.copy(), report, feature_names)
        return model

    def _named(self, feature_names: tuple[str, ...] | None) -> Self:
        """Return the same model with names of its features, if there are any."""
        return self if feature_names is None else self._from_fit(self._parameters, self._report, feature_names)

    def _adopt(self, parameters: Parameters, report: FitReport | None, feature_names: tuple[str, ...] | None) -> None:
        # All are views of the buffer. Since that is read-only too, none can be made writeable again.
        for array in (
            parameters.weights,
            parameters.degrees_of_freedom,
            parameters.means,
            parameters.uniquenesses,
            parameters.loadings,
            parameters.buffer,
        ):
            array.flags.writeable = False
        self._parameters = parameters
        self._report = report and replace(report, at_floor=_read_only(report.at_floor), history=tuple(report.history))
        self._feature_names = feature_names

    # NumPy's copies and pickles would be writeable and separate, so the copy is made from the values.
    def __getstate__(self) -> dict[str, Any]:
        p = self._parameters
        return {
            "n_features": p.n_features,
            "n_factors": p.n_factors,
            "values": p.buffer,
            "background": p.background,
            "report": self._report,
            "feature_names": self._feature_names,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        parameters = Parameters(state["n_features"], state["n_factors"])
        parameters.buffer[:] = state["values"]
        parameters.background = state.get("background")
        self._adopt(parameters, state["report"], state["feature_names"])

    # -- parameters --

    @property
    def n_components(self) -> int:
        """Number of components K."""
        return self._parameters.n_components

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self._parameters.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the d features, from the columns of the frame that was fitted, or None."""
        return self._feature_names

    @property
    def n_factors(self) -> NDArray[np.intp]:
        """Number of factors p_k of each component, (K,)."""
        return _read_only(np.array(self._parameters.n_factors, dtype=np.intp))

    @property
    def weights(self) -> FloatArray:
        """Mixing weights, (K,), sum 1."""
        return self._parameters.weights

    @property
    def means(self) -> FloatArray:
        """Means, (K, d); of t components, the centres."""
        return self._parameters.means

    @property
    def loadings(self) -> list[FloatArray]:
        """Loadings, K arrays (d, p_k)."""
        return [self._parameters.component_loadings(k).T for k in range(self.n_components)]

    @property
    def uniquenesses(self) -> FloatArray:
        """Variances of the noise of each column, (K, d); of t components, squared scales."""
        return self._parameters.uniquenesses

    @property
    def degrees_of_freedom(self) -> FloatArray:
        """Degrees of freedom of the components' t distributions, (K,); infinite for normal ones."""
        return self._parameters.degrees_of_freedom

    @property
    def background(self) -> str | None:
        """Kind of the background beside the components: "uniform", "heavy" or "custom"; None without one."""
        background = self._parameters.background
        return None if background is None else str(background.density.kind)

    @property
    def background_weight(self) -> float:
        """Share of the rows that belongs to the background; 0 without one. `weights` are those of the components."""
        return self._parameters.background_weight

    @property
    def n_parameters(self) -> int:
        """Number of free parameters, loadings counted up to rotation.

        After a fit, these are the parameters that it estimated: tied uniquenesses count once. In a model made from
        arrays, degrees of freedom count once if they are finite and the same for all components, or else K times
        unless all components are normal.
        """
        if self._report is None:
            of_normal = n_parameters(self.n_features, self._parameters.n_factors)
            return of_normal + self._parameters.n_tail_parameters + (self._parameters.background is not None)
        return self._report.n_parameters

    # -- what the fit says --

    @property
    def cost(self) -> float | None:
        """Cost of the model by the `criterion` that the fit minimised, nats, as in `history`; lower is better.

        None for a model made from arrays. NaN if all training rows were the same, so that there was nothing to
        minimise, or if the model was saved before amofa kept the cost.
        """
        return self._report.cost if self._report else None

    @property
    def log_likelihood(self) -> float | None:
        """Log-likelihood of the training rows, nats; None for a model made from arrays."""
        return self._report.log_likelihood if self._report else None

    @property
    def message_length(self) -> float | None:
        """Message length of the training rows by the paper's formula, nats, whatever the criterion was.

        None for a model made from arrays.
        """
        return self._report.message_length if self._report else None

    @property
    def criterion(self) -> str | None:
        """Name of the criterion that the search minimised; None for a model made from arrays."""
        return self._report.criterion if self._report else None

    @property
    def noise(self) -> str | None:
        """Kind of noise that the fit found or was given, as in `amofa.fit`; None if there was no such fit.

        None also if the model was saved before amofa kept it.
        """
        return self._report.noise if self._report else None

    @property
    def n_samples(self) -> float | None:
        """Number of training rows, or the sum of their weights; None for a model made from arrays."""
        return self._report.n_samples if self._report else None

    @property
    def converged(self) -> bool:
        """Whether a search ended by itself and met its tolerance; False for a model made from arrays."""
        return self._report is not None and self._report.converged

    @property
    def at_floor(self) -> NDArray[np.bool_]:
        """Mask of the uniquenesses that the fit held at their floor, (K, d); all False for a model made from arrays."""
        if self._report is None:
            return _read_only(np.zeros(self.means.shape, dtype=np.bool_))
        return self._report.at_floor

    @property
    def history(self) -> tuple[Step, ...]:
        """Every step of the search; empty for a model made from arrays."""
        return self._report.history if self._report else ()

    # -- what can be had without rows --

    def sample(self, n: int, random_state: RandomState = None) -> tuple[FloatArray, NDArray[np.intp]]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n : int
            Number of rows, not negative.
        random_state : int, numpy Generator, numpy RandomState or None
            A generator is used as it is; an int seeds a new one; None takes entropy from the system.

        Returns
        -------
        X : (n, d) float64
            Rows in random order. Columns that were constant in the rows of the fit have their constants.
        labels : (n,) intp
            The component of each row, or -1 if it is from the background: from its boxes, or its t distribution.

        Raises
        ------
        ValueError
            If n is negative, or the background is a function.

        Examples
        --------
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [90.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
        >>> X, labels = model.sample(5, random_state=0)
        >>> X.shape, bool(((X[:, 0] > 45) == labels).all())
        ((5, 1), True)
        """
        n = operator.index(n)
        if n < 0:
            raise ValueError(f"n must not be negative, got {n}")
        rng = check_random_state(random_state)
        # Divide by its own last entry, so that every number below 1 finds a component, whatever the rounding.
        cumulated = np.cumsum(self.weights)
        labels = np.searchsorted(cumulated / cumulated[-1], rng.random(n), side="right")
        X = rng.standard_normal((n, self.n_features))
        for k, component in enumerate(self._parameters.components()):
            rows = np.flatnonzero(labels == k)
            factors = rng.standard_normal((len(rows), len(component.loadings)))
            if component.degrees_of_freedom < np.inf:
                deviations = np.sqrt(component.uniquenesses) * X[rows] + factors @ component.loadings
                X[rows] = component.mean + deviations * stretches(rng, component.degrees_of_freedom, len(rows))
            else:
                X[rows] = component.mean + np.sqrt(component.uniquenesses) * X[rows] + factors @ component.loadings
        if self._parameters.background is not None:
            self._draw_background(self._parameters.background, X, labels, rng)
        if self._report is not None and self._report.constant is not None:
            # The noise that the model has there is for new rows in which the column may vary.
            X[:, self._report.constant] = self.means[0, self._report.constant]
        return X, labels

    def _draw_background(self, background: Background, X: FloatArray, labels: NDArray[np.intp], rng: Generator) -> None:
        """Replace some of the rows by draws from the background; it leaves other columns to the components."""
        rows = np.flatnonzero(rng.random(len(X)) < background.weight)
        drawn = draw(background.density, rng, len(rows))
        if not background.density.covers.all():
            fill(self._parameters, drawn, rng)
        X[rows], labels[rows] = drawn, -1

    def covariance(self, k: int) -> FloatArray:
        """Return the covariance matrix of component k.

        It is Lambda_k Lambda_k' + Psi_k, and nu / (nu - 2) times this matrix for a t component with nu degrees of
        freedom.

        Parameters
        ----------
        k : int
            From 0 to K - 1.

        Returns
        -------
        (d, d) float64

        Raises
        ------
        IndexError
            If there is no such component.
        ValueError
            If the component has at most 2 degrees of freedom, and so no covariance matrix; it has a `scale_matrix`.

        Examples
        --------
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]])
        >>> model.covariance(0)
        array([[2., 2.],
               [2., 5.]])
        """
        covariance = self.scale_matrix(k)
        degrees = self.degrees_of_freedom[k]
        if degrees == np.inf:
            return covariance
        if degrees <= 2:
            raise ValueError(
                f"component {k} has {degrees:g} degrees of freedom, and so infinite variances; use scale_matrix({k})"
            )
        covariance *= degrees / (degrees - 2)
        return covariance

    def scale_matrix(self, k: int) -> FloatArray:
        """Return the matrix Lambda_k Lambda_k' + Psi_k of component k: the ``shape`` of a t distribution in SciPy.

        For a normal component, this is the covariance matrix.

        Parameters
        ----------
        k : int
            From 0 to K - 1.

        Returns
        -------
        (d, d) float64

        Raises
        ------
        IndexError
            If there is no such component.

        Examples
        --------
        >>> import amofa
        >>> from scipy.stats import multivariate_t
        >>> parameters = [1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]]
        >>> model = amofa.MixtureOfFactorAnalyzers(*parameters, degrees_of_freedom=4)
        >>> density = multivariate_t(model.means[0], model.scale_matrix(0), df=model.degrees_of_freedom[0])
        >>> bool(abs(model.score_samples([[3.0, 1.0]]) - density.logpdf([3.0, 1.0])) < 1e-12)
        True
        """
        if not 0 <= operator.index(k) < self.n_components:
            raise IndexError(f"there is no component {k}; they are numbered from 0 to {self.n_components - 1}")
        loadings = self._parameters.component_loadings(k)
        scale: FloatArray = loadings.T @ loadings
        scale[np.diag_indices(self.n_features)] += self.uniquenesses[k]
        return scale

    def cython_handle(self) -> CythonHandle:
        """Return the components for other compiled code, without a background; see docs/cython.md.

        Returns
        -------
        CythonHandle
            Its ``mixture`` is the argument of the functions in amofa/cython_amofa.pxd. Each call makes a new handle.

        Examples
        --------
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]])
        >>> handle = model.cython_handle()
        >>> handle.n_components, handle.n_features, handle.n_factors, handle.mixture.flags.writeable
        (1, 2, (1,), False)
        """
        return CythonHandle.of(self._parameters)

    def summary(self) -> str:
        """Return a text with tables of the components, their means and, after a fit, the accepted steps of the search.

        The mean uniqueness share of a component is the part of the variance that its factors do not explain, averaged
        over features. Means and standard deviations are those of the mixture; ``report(X)`` has more about each
        component, and those of its rows.

        Returns
        -------
        str
            A console and a notebook show it with its lines, with or without `print`.

        Examples
        --------
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]])
        >>> model.summary()
        Mixture of 1 factor analyser: 2 features, 6 free parameters
        <BLANKLINE>
        component  weight  factors  mean uniqueness share
                0  1.0000        1                  0.350
        <BLANKLINE>
        mean ± standard deviation, of each component
        column          0
        x0      0.0 ± 1.4
        x1      0.0 ± 2.2
        """
        return summarize(self._parameters, self.n_parameters, self._report, self._feature_names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which `amofa.load` reads.

        Parameters
        ----------
        path : str or PathLike
            Used as given: no suffix is added. An existing file is replaced when the new one is complete on disk.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file is then intact.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "model.npz"))
        """
        write_arrays(path, self._arrays())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the model's file."""
        return model_arrays(self._parameters, self._report, self._feature_names)

    def __repr__(self) -> str:
        text = (
            f"{type(self).__name__}(n_components={self.n_components}, n_features={self.n_features}, "
            f"n_factors={_first_of(map(str, self._parameters.n_factors))}"
        )
        if np.isfinite(self.degrees_of_freedom).any():
            text += f", degrees_of_freedom={_first_of(f'{nu:.3g}' for nu in self.degrees_of_freedom)}"
        if self.background is not None:
            text += f", background={self.background!r}"
        return text + ")"


def _first_of(values: Iterable[str]) -> str:
    """Return the first values of a list as text."""
    texts = list(values)
    return f"[{', '.join(texts[:12] + ['...'] * (len(texts) > 12))}]"


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy
