"""A line that shows the progress of a search, drawn by rich on a terminal, and by IPython in a notebook."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from amofa._model.text import counted
from amofa.history import Step

Show = Callable[[Step], None]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


def can_be_shown() -> bool:
    """Return whether rich is installed."""
    return importlib.util.find_spec("rich") is not None


# Seconds between two updates of a notebook, which reach it as messages.
_UPDATE_TIME = 0.2


class _NotebookLine:
    """A line in the output of a notebook's cell."""

    def __init__(self, first: str) -> None:
        display = importlib.import_module("IPython.display").display
        self.start = self.last_time = time.monotonic()
        self.text = first
        self.handle = display(self._data(), raw=True, display_id=True)

    def _data(self) -> dict[str, str]:
        minutes, seconds = divmod(int(time.monotonic() - self.start), 60)
        return {"text/plain": f"{self.text}  {minutes}:{seconds:02d}"}

    def change(self, text: str) -> None:
        self.text = text
        if time.monotonic() - self.last_time >= _UPDATE_TIME:
            self.show()

    def show(self) -> None:
        self.last_time = time.monotonic()
        self.handle.update(self._data(), raw=True)


def _is_notebook() -> bool:
    """Return whether the code runs in a notebook, or in another front end of IPython's kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def _line(wanted: bool, first: str) -> Iterator[Callable[[str], None] | None]:
    """Show a line; yield a function that changes it, or None without a line, or with no terminal or notebook."""
    if not wanted:
        yield None
        return
    if _is_notebook():
        notebook_line = _NotebookLine(first)
        try:
            yield notebook_line.change
        finally:
            notebook_line.show()
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
    """Keep a line up to date during a search, in a notebook or on standard error; yield what to call with each step.

    None if no line is wanted, or if there is neither a notebook nor a terminal. ImportError if one is wanted outside a
    notebook and rich is not installed.
    """
    with _line(wanted, "fitting the first model") as change:
        status = _Status()
        yield None if change is None else lambda step: change(status.after(step))


@contextmanager
def progress_of_fits(wanted: bool) -> Iterator[Map]:
    """Keep a line up to date during several fits, in a notebook or on standard error; yield what to use as `map`.

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
