"""The loop of EM: E-step, stopping rule, M-step."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from amofa._em.outcome import Outcome
from amofa._parameters import Parameters

# Called with each iteration: its number, from 1, the numbers of factors, log-likelihood and cost in nats.
Tell = Callable[[int, tuple[int, ...], float, float], None]


class Decision(Enum):
    """The decision of a stopping rule after an E-step."""

    GO_ON = 1
    # Choose the numbers of factors again in the M-step.
    CHOOSE = 2
    CONVERGED = 3
    GIVE_UP = 4


# Enum members are looked up slowly; small tables take thousands of iterations of a few microseconds.
GO_ON, CHOOSE, CONVERGED, GIVE_UP = Decision


class Iterate(Protocol):
    """A mixture with its work arrays."""

    # Whether the last allowed iteration has an M-step, too, followed by one more E-step.
    ends_with_m_step: bool

    @property
    def parameters(self) -> Parameters: ...

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the parameters of the last E-step, nats."""

    def expect(self) -> float:
        """Run the E-step and return what EM lowers, nats."""

    def cost(self, objective: float) -> float:
        """Return the criterion from what `expect` returned, nats."""

    def maximize(self, choose: bool) -> Iterate:
        """Run the M-step, in place if possible, and return the iterate to continue with."""

    def outcome(self, objective: float, n_iter: int, converged: bool) -> Outcome:
        """Return the outcome of a run that ends after this E-step."""


class StoppingRule(Protocol):
    def decide(self, iterate: Any, n_iter: int, objective: float) -> Decision:
        """Decide what to do after the E-step of an iteration."""


def go_on() -> None:
    """Check nothing: a run that nobody stops."""


def run_em(
    iterate: Iterate, rule: StoppingRule, max_iter: int, *, check: Callable[[], None] = go_on, tell: Tell | None = None
) -> Outcome:
    """Run EM until its rule or the number of iterations ends it.

    `check` is called before each iteration, and raises an exception if the search must stop; `tell` is called with
    each.
    """
    objective = float("nan")
    for n_iter in range(1, max_iter + 1):
        check()
        objective = iterate.expect()
        if tell is not None:
            tell(n_iter, iterate.parameters.n_factors, iterate.log_likelihood, iterate.cost(objective))
        decision = rule.decide(iterate, n_iter, objective)
        if decision is CONVERGED or decision is GIVE_UP:
            return iterate.outcome(objective, n_iter, converged=decision is CONVERGED)
        if n_iter < max_iter or iterate.ends_with_m_step:
            iterate = iterate.maximize(decision is CHOOSE)
    if iterate.ends_with_m_step:
        objective = iterate.expect()
    return iterate.outcome(objective, max_iter, converged=False)
