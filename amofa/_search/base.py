"""The base of both searches: a state and a step."""

from __future__ import annotations

from typing import ClassVar

from amofa._data.row_source import RowSource
from amofa._em.outcome import Outcome
from amofa._search.constraints import Constraints
from amofa._search.monitor import Monitor
from amofa._search.state import State


class Search:
    """A search whose phases are methods: the phase of its state, which each step changes, names the next one.

    The samples are in the coordinates of the search, and the monitor receives every model that was tried on all rows,
    including rejected ones.
    """

    PHASES: ClassVar[tuple[str, ...]]

    def __init__(self, state: State, samples: RowSource, constraints: Constraints, monitor: Monitor) -> None:
        # A state may come from a file.
        if state.phase not in self.PHASES:
            raise ValueError(f"the checkpoint is damaged, at step {state.phase!r}; delete it or give another path")
        self.state, self.samples, self.constraints, self.monitor = state, samples, constraints, monitor

    def step(self) -> None:
        """Take the next step, which sets the phase that follows it."""
        getattr(self, self.state.phase)()

    @property
    def current(self) -> Outcome:
        """The present mixture."""
        assert self.state.current is not None
        return self.state.current

    @property
    def result(self) -> Outcome:
        """The cheapest model that meets the constraints, after the search has ended."""
        assert self.state.result is not None
        return self.state.result

    def _accept(self, action: str, component: int, outcome: Outcome) -> None:
        self.state.current = outcome
        self.monitor.see(action, component, outcome, accepted=True)
