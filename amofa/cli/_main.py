"""The program: its parser, its exit status, and one line for whatever is wrong."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from amofa._version import __version__
from amofa.cli._options import Parser
from amofa.cli._output import Interrupted, complain, tell_of_interrupt
from amofa.warnings import AmofaWarning

# What a shell reports of a program that SIGINT or SIGPIPE has ended.
_INTERRUPTED = 130
_READER_GONE = 141
_BAD_INPUT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the program's name; those of the process where not given.

    Returns
    -------
    int
        Exit status: 0, or 2 after one line on standard error for input of any kind that cannot be used, or 130 after
        one that tells of an interrupt.
    """
    if sys.stdout is None:
        # Closed by whoever started the program. There may be no standard error either.
        if sys.stderr is not None:
            complain("error", "standard output is closed")
        return _BAD_INPUT
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", category=AmofaWarning)
        try:
            return _run(argv)
        finally:
            for warning in caught:
                complain("warning", str(warning.message))


def _run(argv: Sequence[str] | None) -> int:
    try:
        try:
            parser = _parser()
            arguments = parser.parse_args(argv)
            if arguments.run is None:
                parser.print_help(sys.stderr)
                return _BAD_INPUT
            arguments.run(arguments)
        finally:
            # Here, and not when the interpreter ends, so that a failure to write is one of those below.
            sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        tell_of_interrupt(str(interrupt) if isinstance(interrupt, Interrupted) else "")
        return _INTERRUPTED
    except BrokenPipeError:
        _drop_unwritable_output()
        return _READER_GONE
    except (OSError, ValueError, MemoryError, ImportError) as error:
        _drop_unwritable_output()
        complain("error", _message(error))
        return _BAD_INPUT
    return 0


def _drop_unwritable_output() -> None:
    """Keep the interpreter from failing, at its end, to write what standard output did not take."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or "there is not enough memory"


def _parser() -> Parser:
    # Here, since it takes long enough to be interrupted, which is then told like later interrupts.
    from amofa.cli import _models, _pictures, _rows

    parser = Parser(
        prog="amofa",
        description="Fit mixtures of factor analysers; how many components, and factors in each, is found.",
        epilog="example:\n  amofa demo\n  amofa fit rows.csv -o model.npz && amofa predict model.npz rows.csv",
    )
    parser.add_argument("--version", action="version", version=f"amofa {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for command in (*_models.COMMANDS, *_rows.COMMANDS, *_pictures.COMMANDS):
        summary = f"{command.summary[0].upper()}{command.summary[1:]}."
        added = commands.add_parser(
            command.name, help=command.summary, description=summary, epilog=f"example:\n  {command.example}"
        )
        added.set_defaults(run=command.run)
        command.add_options(added)
    return parser
