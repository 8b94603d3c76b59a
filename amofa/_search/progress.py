"""A line on a terminal that shows the progress of a search; rich draws it, and is imported only then."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from amofa._model.summary import counted
from amofa.history import Step

Show = Callable[[Step], None]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


def can_be_shown() -> bool:
    """Return whether rich is installed."""
    return importlib.util.find_spec("rich") is not None


@contextmanager
def _line(wanted: bool, first: str) -> Iterator[Callable[[str], None] | None]:
    """Show a line on standard error; yield a function that changes it, or None without a line or a terminal."""
    if not wanted:
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError as error:
        raise ImportError("progress=True needs rich: python -m pip install 'amofa[progress]'") from error
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    # The elapsed time and the spinner move while there is no news.
    parts: list[Any] = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    with Progress(*parts, console=console) as display:
        task = display.add_task(first, total=None)
        yield lambda text: display.update(task, description=text)
        display.update(task, total=1, completed=1)


@contextmanager
def progress_line(wanted: bool) -> Iterator[Show | None]:
    """Keep a line on standard error up to date during a search; yield what to call with each step.

    None if no line is wanted, or standard error is not a terminal. ImportError if one is wanted and rich is not
    installed.
    """
    with _line(wanted, "fitting the first model") as change:
        status = _Status()
        yield None if change is None else lambda step: change(status.after(step))


@contextmanager
def progress_of_fits(wanted: bool) -> Iterator[Map]:
    """Keep a line on standard error up to date during several fits; yield what to use as `map`.

    ImportError if a line is wanted and rich is not installed.
    """
    with _line(wanted, "fitting the first model") as change:

        def apply(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            for i, item in enumerate(items):
                yield function(item)
                if change is not None:
                    change(f"{counted(i + 1, 'model')} fitted")

        yield apply


class _Status:
    """The text after each step, short enough to fit into 80 columns with the time."""

    def __init__(self) -> None:
        self.n_steps = 0
        self.at_hand = ""

    def after(self, step: Step) -> str:
        self.n_steps += 1
        if step.accepted:
            self.at_hand = (
                f"{counted(step.n_components, 'component')}, {counted(sum(step.n_factors), 'factor')}, "
                f"cost {step.cost:.1f}"
            )
        verdict = "accepted" if step.accepted else "rejected"
        return f"{self.at_hand}; {self.n_steps} tried: {step.action} {verdict}"
