"""The program `amofa`: parser, exit status, and one line on standard error for any error."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from amofa._version import __version__
from amofa.cli._options import Parser
from amofa.cli._output import Interrupted, complain, tell_of_interrupt
from amofa.warnings import ADVICE, AmofaWarning

_BAD_INPUT = 2
# What a shell reports for a program that SIGINT or SIGPIPE has ended.
_INTERRUPTED = 130
_READER_GONE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command with the arguments after the program's name, by default those of the process.

    Returns the exit status: 0 on success; 2 if any input cannot be used and 130 if the command was interrupted, each
    with one line on standard error; 141 if the reader of standard output is gone.
    """
    if sys.stdout is None:
        # The parent process has closed it, and perhaps standard error, too.
        if sys.stderr is not None:
            complain("error", "standard output is closed")
        return _BAD_INPUT
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", category=AmofaWarning)
        try:
            return _run(argv)
        finally:
            for warning in caught:
                complain("warning", str(warning.message).replace(ADVICE, "amofa inspect"))


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
            # Here rather than at exit, so that a failed write is handled below.
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
    """Discard what could not be written to standard output, which the interpreter would try again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or "there is not enough memory"


def _parser() -> Parser:
    # Imported here so that Ctrl-C during these slow imports is reported like any other interrupt.
    from amofa.cli import _models, _pictures, _reports, _rows, _scan

    parser = Parser(
        prog="amofa",
        description="Fit mixtures of factor analysers with automatic numbers of components and factors.",
        epilog="example:\n  amofa demo\n  amofa fit rows.csv -o model.npz && amofa predict model.npz rows.csv",
    )
    parser.add_argument("--version", action="version", version=f"amofa {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    groups = (_models, _scan, _reports, _rows, _pictures)
    for command in (command for group in groups for command in group.COMMANDS):
        summary = f"{command.summary[0].upper()}{command.summary[1:]}."
        added = commands.add_parser(
            command.name, help=command.summary, description=summary, epilog=f"example:\n  {command.example}"
        )
        added.set_defaults(run=command.run)
        command.add_options(added)
    return parser
