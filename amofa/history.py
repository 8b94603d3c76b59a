"""The record of a fit: every step of the search, and what came out of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
    at_floor: NDArray[np.bool_]
    history: tuple[Step, ...]
    n_parameters: int
