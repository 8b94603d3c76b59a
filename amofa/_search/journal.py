"""What the long parts of a search came to, kept for the case that it is cut off. This journal keeps nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from amofa._parameters import Parameters

Arrays = Mapping[str, NDArray[Any]]
Result = TypeVar("Result")


class Journal:
    """A search asks it for everything that takes long.

    What it asks for depends on the answers alone. So a search that was cut off comes to where it was by being run
    again, with answers of a journal in place of work.

    Attributes
    ----------
    has_worked : bool
        Whether there has been anything that was not in the journal.
    """

    has_worked = True

    def recall(
        self,
        what: Sequence[object],
        about: Sequence[Parameters],
        work: Callable[[], Result],
        pack: Callable[[Result], Arrays],
        unpack: Callable[[Arrays], Result],
        worth: float = 0.0,
    ) -> Result:
        """What came of a piece of work, which is done now if it is not in the journal.

        Parameters
        ----------
        what : sequence
            Says what is done, with all numbers that it depends on, by its `repr`.
        about : sequence of Parameters
            Mixtures that it depends on.
        work : callable
            Does it.
        pack, unpack : callable
            The result as arrays, and back: the same to the last bit.
        worth : float
            Work that took fewer seconds is not taken down.
        """
        return work()

    def keep(self, make_model: Callable[[], Any]) -> None:
        """Take down the best model so far."""

    def end(self, model: Any) -> None:
        """Take down the model of a search that has ended."""


# ---- what EM ended with, as arrays -----------------------------------------------------------------------------------


class Outcome(Protocol):
    """A mixture that EM ended with: `amofa._em.standard.Fit` or `amofa._em.profile_likelihood.Solution`."""

    @property
    def parameters(self) -> Parameters: ...

    @property
    def log_likelihood(self) -> float: ...

    @property
    def cost(self) -> float: ...

    @property
    def n_iter(self) -> int: ...

    @property
    def converged(self) -> bool: ...


# What EM tells of an iteration: its number, from 1, factors of each component, log-likelihood and cost, nats.
Iterated = Callable[[int, tuple[int, ...], float, float], None]


class Recalled(NamedTuple):
    """An outcome from a journal."""

    parameters: Parameters
    log_likelihood: float
    cost: float
    n_iter: int
    converged: bool


def pack_outcome(outcome: Outcome) -> Arrays:
    return {
        **pack_parameters(outcome.parameters),
        "nats": np.array([outcome.log_likelihood, outcome.cost]),
        "n_iter": np.array(outcome.n_iter, dtype=np.int64),
        "converged": np.array(outcome.converged, dtype=np.bool_),
    }


def unpack_outcome(arrays: Arrays) -> Recalled:
    log_likelihood, cost = arrays["nats"].tolist()
    return Recalled(unpack_parameters(arrays), log_likelihood, cost, int(arrays["n_iter"]), bool(arrays["converged"]))


def pack_parameters(parameters: Parameters) -> Arrays:
    shape = (parameters.n_features, *parameters.n_factors)
    return {"shape": np.array(shape, dtype=np.int64), "parameters": parameters.buffer}


def unpack_parameters(arrays: Arrays) -> Parameters:
    n_features, *n_factors = arrays["shape"].tolist()
    parameters = Parameters(n_features, n_factors)
    parameters.buffer[:] = arrays["parameters"]
    return parameters
