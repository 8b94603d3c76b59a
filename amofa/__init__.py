"""Mixtures of factor analysers whose numbers of components and factors are found automatically."""

try:
    from amofa._version import __version__
except ImportError as error:
    raise ImportError(
        "this is the source folder of amofa, which has no compiled modules: run Python in another folder, or install "
        "with python -m pip install --editable ."
    ) from error

# Before the modules below: from deep within them it takes longer, a tenth of the time of `import amofa`.
import scipy.linalg  # noqa: F401

from amofa._search.monitor import FitInterrupted
from amofa.fitting import fit
from amofa.history import LiveIteration, LiveStep
from amofa.io import load
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.scanning import Scan, ScanInterrupted, scan
from amofa.warnings import AmofaWarning

__all__ = [
    "AmofaWarning",
    "FitInterrupted",
    "LiveIteration",
    "LiveStep",
    "MixtureOfFactorAnalyzers",
    "Scan",
    "ScanInterrupted",
    "__version__",
    "fit",
    "load",
    "scan",
]
