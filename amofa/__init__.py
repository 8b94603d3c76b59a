"""Mixtures of factor analysers whose numbers of components and factors are found automatically."""

try:
    from amofa._version import __version__
except ImportError as error:
    raise ImportError(
        "this is the source folder of amofa, which has no compiled modules: run Python in another folder, or install "
        "with python -m pip install --editable ."
    ) from error

import importlib
from typing import TYPE_CHECKING

# Before the modules below: from deep within them it takes longer, a tenth of the time of `import amofa`.
import scipy.linalg  # noqa: F401

from amofa._model.clusters import Clusters
from amofa._model.report import Report
from amofa._search.monitor import FitInterrupted
from amofa._show_versions import show_versions
from amofa.fitting import fit
from amofa.history import LiveIteration, LiveStep, StreamStep
from amofa.inspection import Inspection, inspect
from amofa.io import load
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.scanning import Scan, ScanInterrupted, scan
from amofa.warnings import AmofaWarning, DataWarning

__all__ = [
    "AmofaWarning",
    "Clusters",
    "DataWarning",
    "FitInterrupted",
    "Inspection",
    "LiveIteration",
    "LiveStep",
    "MixtureOfFactorAnalyzers",
    "Report",
    "Scan",
    "ScanInterrupted",
    "Stream",
    "StreamStep",
    "__version__",
    "fit",
    "inspect",
    "load",
    "scan",
    "show_versions",
]

# Public modules, which are loaded when they are first used.
_MODULES = (
    "baselines",
    "blocks",
    "classes",
    "criterion",
    "cython_amofa",
    "dask",
    "metrics",
    "plot",
    "sklearn",
    "threads",
)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


if TYPE_CHECKING:
    from amofa import baselines, blocks, classes, criterion, cython_amofa, dask, metrics, plot, sklearn, threads  # noqa: F401
    from amofa.streaming import Stream
else:

    def __getattr__(name):
        if name == "Stream":
            return importlib.import_module("amofa.streaming").Stream
        if name not in _MODULES:
            raise AttributeError(f"module 'amofa' has no attribute {name!r}")
        try:
            return importlib.import_module(f"amofa.{name}")
        except ModuleNotFoundError as error:
            # What looks through all names, like help, goes on; whoever uses this one reads what to install.
            raise AttributeError(str(error)) from error
