"""IMoFA-L: an incremental mixture of factor analysers that grows while held-out rows become likelier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import (
    RandomState,
    check_noise_floor,
    check_positive,
    check_random_state,
    check_table,
    check_whole_number,
)
from amofa._data.row_chunks import Moments, Samples
from amofa._em.factor_analysis import principal_axes
from amofa._em.outcome import Outcome
from amofa._em.standard import Settings, standard_em
from amofa._model.finalize import make_step
from amofa._parameters import Component, Evaluator, Parameters
from amofa._search.constraints import LEAST_SHARE_OF_A_ROW, MOST_FACTORS_SHARE, Constraints
from amofa._search.paper_moves import add_factor, covariance_misfit, first_mixture
from amofa._typing import FloatArray
from amofa.baselines._task import BaselineTask
from amofa.criterion import Penalty, n_parameters
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread


def imofa(
    X: ArrayLike,
    *,
    validation: ArrayLike | None = None,
    validation_share: float = 0.3,
    max_components: int | None = None,
    max_factors: int | None = None,
    noise_floor: float | ArrayLike | None = None,
    tol: float = 4e-4,
    max_iter: int = 100,
    random_state: RandomState = 0,
) -> MixtureOfFactorAnalyzers:
    """Fit a mixture of factor analysers by IMoFA-L of Salah & Alpaydin [1]_, whose size a validation set decides.

    The search starts from one component with one factor. Each step tries to split the component that is least like a
    Gaussian, and to give a factor to the one whose covariance is modelled worst. After EM on all training rows, the one
    under which the validation rows are likelier is kept. The search ends when neither makes them likelier.

    Parameters
    ----------
    X : (n, d) array-like
        Finite real numbers: the training rows and, if ``validation`` is not given, the validation rows among them.
    validation : (m, d) array-like, optional
        Rows that decide, and to which nothing is fitted.
    validation_share : float, default 0.3
        Share of the rows of X that is held out at random if ``validation`` is not given; between 0 and 1.
    max_components, max_factors : int, optional
        Upper bounds.
    noise_floor : float or (d,) array-like, default 1e-4
        Smallest uniqueness, as a share of each column's variance, or a variance for each column, in its own units.
    tol : float, default 4e-4
        EM ends when the log-likelihood changes by less than this, in nats per row.
    max_iter : int, default 100
        Maximum number of iterations of one EM run.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default 0
        Chooses the held-out rows; not used if ``validation`` is given. None chooses other rows at each call.

    Returns
    -------
    MixtureOfFactorAnalyzers
        `log_likelihood` and `n_samples` refer to the training rows; the ``cost`` of a step of the history is minus
        the log-likelihood of the validation rows.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it and what to do.

    Warns
    -----
    AmofaWarning
        If columns are constant in the training rows.

    Notes
    -----
    The start is the principal axis, not a random factor as in [1]_, so that nothing is random if ``validation`` is
    given. A child of a split begins with its parent's loadings and uniquenesses and with the parent's mean moved by
    one standard deviation along the principal axis of the parent's rows, one child to either side.

    References
    ----------
    .. [1] A. A. Salah, E. Alpaydin, "Incremental mixtures of factor analyzers", ICPR 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa.baselines import imofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(9, 1, (200, 2))])
    >>> imofa(X[::2], validation=X[1::2]).n_components
    2
    """
    training, held_out = _two_sets(X, validation, validation_share, random_state)
    d = training.shape[1]
    floor = check_noise_floor(noise_floor, d)
    constraints = Constraints(
        max_components=None
        if max_components is None
        else check_whole_number("max_components", max_components, at_least=1),
        max_factors=None if max_factors is None else check_whole_number("max_factors", max_factors, at_least=0),
    )
    tol = check_positive("tol", tol)
    max_iter = check_whole_number("max_iter", max_iter, at_least=1)
    with single_blas_thread(), np.errstate(under="ignore"):
        task = BaselineTask.of(training, None, floor)
        found, history = Outcome.of_no_columns(), list[Step]()
        if task.samples.n_features:
            settings = Settings(_no_penalty, task.standardized_floor, tol, max_iter, False)
            validated = task.rows.coordinates.samples(held_out, None, None)
            growth = _Growth(task.samples, validated, settings, constraints)
            growth.run()
            found, history = growth.current.fit, growth.history
        count = n_parameters(d, found.parameters.n_factors)
        return task.model(found, history, criterion="validation", n_parameters=count)


def _two_sets(
    X: ArrayLike, validation: ArrayLike | None, share: Any, random_state: RandomState
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the training rows and the validation rows."""
    table = check_table(X)
    if validation is not None:
        return table, check_table(validation, name="validation", n_features=table.shape[1])
    share = check_positive("validation_share", share)
    if share >= 1.0:
        raise ValueError(f"validation_share must be below 1, got {share}")
    if len(table) < 2:
        raise ValueError("X has one row, of which none can be held out; pass more rows, or validation")
    n_held_out = min(max(1, round(share * len(table))), len(table) - 1)
    order = check_random_state(random_state).permutation(len(table))
    return table[np.sort(order[n_held_out:])], table[np.sort(order[:n_held_out])]


def _no_penalty(n_features: int, n_factors: Sequence[int], n: float) -> Penalty:
    """Return no penalty: EM is for maximum likelihood."""
    return Penalty(0.0, (), False, (0.0,) * len(n_factors))


@dataclass(frozen=True)
class _Candidate:
    """A mixture after EM on the training rows, and the log-likelihood of the validation rows under it, in nats."""

    action: str
    component: int
    fit: Outcome
    validation: float


class _Growth:
    """The search: its present model and its history."""

    def __init__(self, training: Samples, held_out: Samples, settings: Settings, constraints: Constraints) -> None:
        self.training, self.held_out, self.settings, self.constraints = training, held_out, settings, constraints
        self.history: list[Step] = []
        self.current: _Candidate

    def run(self) -> None:
        """Grow until the validation rows do not become likelier any more."""
        first = first_mixture(self.training, self.constraints.first_factors, self.settings.floor)
        self.current = self._candidate("start", -1, first)
        self._record(self.current, accepted=True)
        while self._grow():
            pass

    def _grow(self) -> bool:
        parameters = self.current.fit.parameters
        moments = self.training.moments(parameters)
        candidates = [self._candidate(*start) for start in self._starts(parameters, moments)]
        # If both are equally good, the factor is taken: it comes first.
        best = max(candidates, key=lambda c: c.validation, default=self.current)
        better = best.validation > self.current.validation
        for candidate in candidates:
            self._record(candidate, accepted=better and candidate is best)
        if better:
            self.current = best
        return better

    def _starts(self, parameters: Parameters, moments: Moments) -> Iterator[tuple[str, int, Parameters]]:
        """Return the changed mixtures to try, before EM."""
        d, K = self.training.n_features, parameters.n_components
        most = MOST_FACTORS_SHARE * d
        if self.constraints.max_factors is not None:
            most = min(most, self.constraints.max_factors)
        room = [p < most for p in parameters.n_factors]
        if any(room):
            k = int(np.argmax(np.where(room, covariance_misfit(parameters, moments), -np.inf)))
            yield "factor", k, add_factor(parameters, k, moments.covariances[k], self.settings.floor)
        large = moments.soft_counts >= d
        if large.any() and (self.constraints.max_components is None or self.constraints.max_components > K):
            k = int(np.argmax(np.where(large, np.abs(self.training.kurtosis_z(parameters)), -np.inf)))
            yield "split", k, _split(parameters, k, moments.covariances[k])

    def _candidate(self, action: str, component: int, start: Parameters) -> _Candidate:
        fit = standard_em(self.training, start, self.settings)
        # A model with a component that EM has emptied cannot be taken.
        holds = fit.parameters.weights.min() * self.training.total_weight >= LEAST_SHARE_OF_A_ROW
        return _Candidate(action, component, fit, self._validation(fit.parameters) if holds else -np.inf)

    def _validation(self, parameters: Parameters) -> float:
        blocks = self.held_out.posterior(Evaluator(parameters))
        return sum(float(block.log_density.sum()) for block in blocks) + self.held_out.log_jacobian

    def _record(self, candidate: _Candidate, *, accepted: bool) -> None:
        outcome = replace(candidate.fit, cost=-candidate.validation)
        self.history.append(make_step(self.training, candidate.action, candidate.component, outcome, accepted=accepted))


def _split(parameters: Parameters, k: int, covariance: FloatArray) -> Parameters:
    """Split component k, one standard deviation along its principal axis to either side; the second goes to the end."""
    values, vectors = principal_axes(covariance)
    step = np.sqrt(values[0]) * vectors[0]
    parent, components = parameters.component(k), parameters.components()
    children: list[Component] = [
        parent._replace(weight=parent.weight / 2, mean=parent.mean + side * step) for side in (1.0, -1.0)
    ]
    components[k] = children[0]
    return Parameters.from_components([*components, children[1]])
