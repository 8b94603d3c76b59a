"""Rows of the paper's experiments: the two examples of clustering, and nine sets for classification."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from core import LabelledSet, example_1, load
from numpy.typing import NDArray

from amofa import demo

FloatArray = NDArray[np.float64]
Labels = NDArray[np.integer]

EXAMPLE_SETS = 100
FOLDS = 10
# True numbers of components. "drawn": if the authors' rows are not available.
EXAMPLES = {"example1": 3, "example2": 4, "example2-drawn": 4}


class ClassificationSet(NamedTuple):
    """A set of the paper's table: its name, file and description."""

    title: str
    file: str | None
    remark: str
    rows: int | None = None


CLASSIFICATION_SETS = {
    "ORL": ClassificationSet("ORL faces, gender", None, "no source was found that states the labels"),
    "LVQ": ClassificationSet(
        "phonemes of LVQ_PAK", "lvq", "both files without the four rarest classes: the paper's counts"
    ),
    "OPT": ClassificationSet(
        "optical digits", "optdigits_paper", "parts tra, cv and windep without four columns: the paper's counts"
    ),
    "PEN": ClassificationSet("pen digits", "pendigits", "10992 rows; which 8992 of them the paper used is unknown"),
    "VIS": ClassificationSet("VISTEX textures", None, "no copy of the paper's patches was found"),
    "WAV": ClassificationSet("waveform", "waveform", "drawn anew from the same generator; the first 500 rows", 500),
    "JPN": ClassificationSet("Japanese phonemes", "jpn_phoneme", "the authors' file"),
    "LET": ClassificationSet("letters", "letter", "the file's order"),
    "MNT": ClassificationSet(
        "MNIST, 10 x 10 pixels", "mnist10", "means of 2 x 2 pixels; its own split, and one run: no spread, no tests"
    ),
}


class Split(NamedTuple):
    """Rows and classes 0, 1, ... for training and for testing."""

    X: FloatArray
    y: Labels
    X_test: FloatArray
    y_test: Labels


def example_set(folder: Path, name: str, number: int) -> LabelledSet:
    """Return rows of an example, and the components that they were drawn from.

    Raises
    ------
    FileNotFoundError
        If it is the authors' Example 2, and their file is not in the folder.
    """
    if name == "example1":
        return example_1(number)
    if name == "example2-drawn":
        return demo.example_2(number)
    sets = loaded(folder, "4ovGauss")
    return sets["X"][number], sets["y"][number]


def fold(folder: Path, name: str, number: int) -> Split:
    """Return a fold of a classification set: tenths of the rows in their order, or the set's own split.

    Raises
    ------
    FileNotFoundError
        If the set's file is not in the folder.
    """
    if name == "MNT":
        train, test = loaded(folder, "mnist10_train"), loaded(folder, "mnist10_test")
        return Split(floats(train["X"]), train["y"], floats(test["X"]), test["y"])
    chosen = CLASSIFICATION_SETS[name]
    file = loaded(folder, chosen.file)
    X, y = floats(file["X"][: chosen.rows]), file["y"][: chosen.rows]
    step = round(len(y) / FOLDS)
    tested = np.zeros(len(y), dtype=bool)
    tested[number * step : (number + 1) * step if number < FOLDS - 1 else len(y)] = True
    return Split(X[~tested], y[~tested], X[tested], y[tested])


def n_folds(name: str) -> int:
    return 1 if name == "MNT" else FOLDS


def is_there(folder: Path, name: str) -> bool:
    """Return whether the files of a set are in the folder."""
    if name == "example2":
        files = ["4ovGauss"]
    elif name in EXAMPLES:
        files = []
    elif name == "MNT":
        files = ["mnist10_train", "mnist10_test"]
    else:
        files = [CLASSIFICATION_SETS[name].file]
    return all(file is not None and (folder / f"{file}.npz").is_file() for file in files)


def floats(X: NDArray) -> FloatArray:
    return X.astype(np.float64)


@lru_cache(maxsize=2)
def loaded(folder: Path, file: str) -> dict[str, NDArray]:
    return load(folder, file)
