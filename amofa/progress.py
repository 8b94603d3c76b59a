"""A live line about a search, on a terminal. It is drawn by rich, which is imported when a line is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from amofa.history import Step
from amofa.summary import counted

Show = Callable[[Step], None]


@contextmanager
def progress_line(wanted: bool) -> Iterator[Show | None]:
    """Keep a line on standard error up to date while a search goes on.

    Parameters
    ----------
    wanted : bool

    Yields
    ------
    callable or None
        To be called with each step of the search. None if no line is wanted, or standard error is not a terminal.

    Raises
    ------
    ImportError
        If a line is wanted and rich is not installed.

    Examples
    --------
    >>> with progress_line(False) as show:
    ...     show is None
    True
    """
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
    # The elapsed time and the spinner go on while there is no news.
    parts = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*parts, console=console) as display:
        task = display.add_task("fitting the first model", total=None)
        line = _Line()
        yield lambda step: display.update(task, description=line.after(step))
        display.update(task, total=1, completed=1)


class _Line:
    """What is said after each step."""

    def __init__(self) -> None:
        self.n_steps = 0
        self.at_hand = ""

    def after(self, step: Step) -> str:
        self.n_steps += 1
        if step.accepted:
            self.at_hand = (
                f"{counted(step.n_components, 'component')}, {counted(sum(step.n_factors), 'factor')}, "
                f"cost {step.cost:.2f} nats"
            )
        verdict = "accepted" if step.accepted else "rejected"
        return f"{self.at_hand}; {counted(self.n_steps, 'model')} tried, last: {step.action} {verdict}"
