"""The record of a fit: the steps of the search, while it runs and afterwards, and its report."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amofa._typing import BoolArray

if TYPE_CHECKING:
    from amofa.mixture import MixtureOfFactorAnalyzers


@dataclass(frozen=True)
class Step:
    """A model that the search tried.

    Attributes
    ----------
    action : str
        "start" (one of several starts of a search, or of EM runs; with 0 iterations, the given start as it is), "split"
        (components became several), "factor" (a component got one more factor, or those that were given), "merge"
        (pairs of components became one), "overshoot" (many splits, and merges of what did not pay), "exchange" (two
        components became one, and one became several), "remove" (downsizing), "share" (all components got the same
        uniquenesses), "tails" (all components got heavier tails, or other degrees of freedom), "background" (a
        background was put beside the components, in the place of some of them), "drop" (a component went to the
        background) or "refine" (more EM for the chosen model).
    component : int
        The component that changed, by its number before the step; -1 if there is none, or if several changed at once.
    n_factors : tuple of int
        Factors of each component after the step.
    cost : float
        The criterion that the search minimises, nats.
    message_length, log_likelihood : float
        Nats.
    n_iter : int
        EM iterations; in the paper's search including those of local fits.
    accepted : bool
        Whether the search continued from this model.
    """

    action: str
    component: int
    n_factors: tuple[int, ...]
    cost: float
    message_length: float
    log_likelihood: float
    n_iter: int
    accepted: bool

    @property
    def n_components(self) -> int:
        return len(self.n_factors)


@dataclass(frozen=True)
class LiveStep(Step):
    """A step of a running search.

    Attributes
    ----------
    model : MixtureOfFactorAnalyzers
        The mixture after the step, in the columns and units of X.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> steps = []
    >>> def two_components(step):
    ...     steps.append(step)
    ...     return step.model.n_components == 2
    >>> amofa.fit(X, callback=two_components).n_components
    2
    >>> steps[0].action, steps[0].n_components, steps[-1].model.means.shape
    ('start', 1, (2, 2))
    """

    model: MixtureOfFactorAnalyzers


Callback = Callable[[LiveStep], object]


@dataclass(frozen=True)
class LiveIteration:
    """An iteration of EM on all rows, just after it was made.

    Attributes
    ----------
    n_iter : int
        Number of iterations of this EM run, including this one. If it is not the last one plus 1, a new run has begun.
    n_factors : tuple of int
        Factors of each component.
    log_likelihood : float
        Log-likelihood of the mixture before the iteration, in nats.
    cost : float
        The criterion that the search minimises, for the same mixture, in nats.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> iterations = []
    >>> model = amofa.fit(X, on_iteration=iterations.append)
    >>> iterations[0].n_iter, iterations[0].n_components, iterations[-1].n_components
    (1, 1, 2)
    """

    n_iter: int
    n_factors: tuple[int, ...]
    log_likelihood: float
    cost: float

    @property
    def n_components(self) -> int:
        return len(self.n_factors)


OnIteration = Callable[[LiveIteration], object]


@dataclass(frozen=True)
class FitReport:
    """The results of a fit besides the parameters.

    Attributes
    ----------
    log_likelihood, message_length : float
        For the chosen model on the training rows, in nats.
    criterion : str
        Name of the criterion that was minimised.
    n_samples : float
        Sum of the row weights.
    converged : bool
        Whether the search ended by itself, and the last EM run of the chosen model met its tolerance.
    at_floor : (K, d) bool
        Which uniquenesses were held at their floor.
    history : tuple of Step
    n_parameters : int
        Number of free parameters that were estimated.
    cost : float
        The criterion that was minimised, for the chosen model, in nats. NaN if all rows were the same, or if the report
        is from before amofa kept it.
    constant : (d,) bool or None
        Which columns were constant; None for none, or if the report is from before amofa kept it.
    noise : str or None
        How uniquenesses, or loadings, are tied: one of the kinds of `amofa.fit`, the one that was chosen. None if the
        report is from before amofa kept it, or of another method.
    """

    log_likelihood: float
    message_length: float
    criterion: str
    n_samples: float
    converged: bool
    at_floor: BoolArray
    history: tuple[Step, ...]
    n_parameters: int
    # Reports in older files and pickles have none of these.
    cost: float = math.nan
    constant: BoolArray | None = None
    noise: str | None = None


@dataclass(frozen=True)
class StreamStep:
    """A change of the mixture of a stream, besides what it learns from each row.

    Attributes
    ----------
    action : str
        "start" (the first mixture: of the warm-up, or given), "trial" (a mixture of another structure has run beside
        the present one), "remove" (components without rows went), "columns" (columns that were constant began to vary)
        or "rescale" (the spread of a column is another one by far).
    n_samples : float
        Number of rows before the step, or the sum of their weights.
    n_factors : tuple of int
        Factors of each component after the step.
    gain : float
        Log density of the rows of a trial under the other mixture, minus that under the present one, nats; otherwise
        0.
    accepted : bool
        Whether the other mixture of a trial has replaced the present one; otherwise True.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> stream = amofa.Stream(warm_up=100).update(rng.normal(0, 1, (100, 2)))
    >>> stream = stream.update(rng.normal([[0, 0], [9, 0]], 1, (1000, 2, 2)).reshape(-1, 2))
    >>> [(step.action, step.n_components) for step in stream.history if step.accepted]
    [('start', 1), ('trial', 2)]
    """

    action: str
    n_samples: float
    n_factors: tuple[int, ...]
    gain: float
    accepted: bool

    @property
    def n_components(self) -> int:
        return len(self.n_factors)
