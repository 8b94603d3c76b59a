"""The record of a fit: every step of the search, while it goes on and afterwards, and what came out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amofa._typing import BoolArray

if TYPE_CHECKING:
    from amofa.mixture import MixtureOfFactorAnalyzers


@dataclass(frozen=True)
class Step:
    """One model that the search looked at.

    Attributes
    ----------
    action : str
        "start" (of a search, or one of several EM runs; of no iterations, what was given to start from, as it is),
        "split" (a component became two), "factor" (a component got one more, or those asked for), "merge" (two became
        one), "remove" (downsizing), "refine" (more EM for the chosen model) or "share" (all components got the same
        uniquenesses).
    component : int
        The component acted on, as it was numbered before the step; -1 where there is none.
    n_factors : tuple of int
        Factors of each component after the step.
    cost : float
        The criterion that the search minimises, nats.
    message_length, log_likelihood : float
        Nats.
    n_iter : int
        EM iterations; in the paper's search those of local fits included.
    accepted : bool
        Whether the search went on from this model.
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
    """A step of a search that is going on.

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
    """An iteration of EM on all rows that has just been made.

    Attributes
    ----------
    n_iter : int
        How many this run of EM has made, this one included; another number than the last plus one: another run.
    n_factors : tuple of int
        Factors of each component.
    log_likelihood : float
        Of the mixture that the iteration started from, nats.
    cost : float
        The criterion that the search minimises, of the same mixture, nats.

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
    """What a fit knows beyond the parameters.

    Attributes
    ----------
    log_likelihood, message_length : float
        Of the chosen model on the training rows, nats.
    criterion : str
        What was minimised.
    n_samples : float
        Sum of the row weights.
    converged : bool
        Whether the search ended by itself and the last EM of the chosen model met its tolerance.
    at_floor : (K, d) bool
        Uniquenesses that were held at their floor.
    history : tuple of Step
    n_parameters : int
        Free parameters that were estimated.
    """

    log_likelihood: float
    message_length: float
    criterion: str
    n_samples: float
    converged: bool
    at_floor: BoolArray
    history: tuple[Step, ...]
    n_parameters: int
