"""Pictures of mixtures, of rows under them, and of searches.

Every function takes ``ax``, the matplotlib axes to draw into (by default a new figure), and returns it. Matplotlib
is needed, ``python -m pip install 'amofa[plot]'``, but only imported when a picture is drawn. Component k has the same
colour in all of them. If there are more than 20 000 rows, an evenly spaced selection is drawn.
"""

from amofa.plot._axes import use_files
from amofa.plot._density import contours, density, outliers
from amofa.plot._profiles import pairs, profiles
from amofa.plot._rows import clusters, factor_scores, responsibilities, uncertainty
from amofa.plot._scan import scan
from amofa.plot._search import cost, evolution, message_length, snapshots
from amofa.plot._structure import loadings, sensible, suitable
from amofa.plot._tree import tree

__all__ = [
    "clusters",
    "contours",
    "cost",
    "density",
    "evolution",
    "factor_scores",
    "loadings",
    "message_length",
    "outliers",
    "pairs",
    "profiles",
    "responsibilities",
    "scan",
    "sensible",
    "snapshots",
    "suitable",
    "tree",
    "uncertainty",
    "use_files",
]
