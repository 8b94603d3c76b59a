"""Estimators for scikit-learn, which ``pip install 'amofa[sklearn]'`` installs; amofa itself does not import them.

Their fits are deterministic and accept sample weights (an integer weight equals repeated rows). They follow
scikit-learn's conventions: pipelines, searches, cloning, pickles, frames, metadata routing.
"""

try:
    import sklearn as _sklearn  # noqa: F401 - for a clear error if it is missing
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "amofa.sklearn needs scikit-learn: pip install 'amofa[sklearn]'", name="sklearn"
    ) from error

from amofa.sklearn._classifier import AMoFAClassifier
from amofa.sklearn._imputer import AMoFAImputer
from amofa.sklearn._mixture import AMoFA
from amofa.sklearn._regressor import AMoFARegressor

__all__ = ["AMoFA", "AMoFAClassifier", "AMoFAImputer", "AMoFARegressor"]
