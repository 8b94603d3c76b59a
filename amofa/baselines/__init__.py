"""Other methods to fit a mixture, for comparison; each returns the same kind of model as `amofa.fit`."""

from amofa.baselines.gaussian_per_class import gaussian_per_class
from amofa.baselines.imofa import imofa
from amofa.baselines.mfa import mfa
from amofa.baselines.recursive_ulfmm import recursive_ulfmm
from amofa.baselines.ulfmm import ulfmm
from amofa.baselines.vbmofa import vbmofa

__all__ = ["gaussian_per_class", "imofa", "mfa", "recursive_ulfmm", "ulfmm", "vbmofa"]
