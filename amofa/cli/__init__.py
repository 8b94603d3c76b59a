"""The command line: ``amofa demo``, ``fit``, ``predict``, ``score``, ``classify``, ``impute``, ``plot`` and more."""

from amofa.cli._main import main

__all__ = ["main"]
