"""Results of units of work in a CSV file, from which a stopped run can be resumed."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Unit(NamedTuple):
    """One fit, or one fit for each class: a method on a fold of a set, or on one of the sets of an example."""

    data: str
    number: int
    method: str


class Result(NamedTuple):
    """The result of a unit.

    Attributes
    ----------
    data, number, method
        The unit.
    score : float
        Normalised information distance of an example, accuracy in percent of a classification.
    components : str
        Number of components found, for a classification that of each class.
    factors : str
        Numbers of factors of all components; empty for mixtures of Gaussians.
    log_density : float
        Mean over the rows in nats; for a classification, of test rows under the model of their own class.
    seconds : float
        CPU seconds of the fit.
    version : str
        Version of amofa.
    """

    data: str
    number: int
    method: str
    score: float
    components: str
    factors: str
    log_density: float
    seconds: float
    version: str

    @property
    def unit(self) -> Unit:
        return Unit(self.data, self.number, self.method)

    @property
    def n_components(self) -> list[int]:
        return [int(k) for k in self.components.split()]

    @property
    def n_factors(self) -> list[int]:
        return [int(p) for p in self.factors.split()]


class ResultsFile:
    """A CSV file with a line for each unit; an incomplete last line is dropped, and its unit repeated.

    Parameters
    ----------
    path : Path
        Created if it does not exist.

    Attributes
    ----------
    results : dict of Unit to Result

    Raises
    ------
    ValueError
        If the file is not a file of results.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[Unit, Result] = {}
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(path, len(whole))
        if not whole:
            self._append(Result._fields)
            return
        header, *lines = csv.reader(io.StringIO(whole.decode()))
        if tuple(header) != Result._fields:
            raise ValueError(f"{path} has other columns than {', '.join(Result._fields)}; move it away")
        for line in lines:
            self._keep(parsed(line))

    def add(self, result: Result) -> None:
        """Append a line, in one write."""
        self._append(result)
        self._keep(result)

    def of(self, data: str) -> list[Result]:
        """Return all results on a set, by number."""
        return sorted((r for r in self.results.values() if r.data == data), key=lambda r: r.number)

    def _keep(self, result: Result) -> None:
        self.results[result.unit] = result

    def _append(self, values: Iterable[object]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(values)
        with self.path.open("ab", buffering=0) as file:
            file.write(line.getvalue().encode())


def parsed(line: list[str]) -> Result:
    data, number, method, score, components, factors, log_density, seconds, version = line
    return Result(
        data, int(number), method, float(score), components, factors, float(log_density), float(seconds), version
    )


def scores(results: Iterable[Result], methods: Iterable[str]) -> dict[str, NDArray[np.float64]]:
    """Return the scores of each method that has any, on the units that all these methods have."""
    by_method: dict[str, dict[int, float]] = {method: {} for method in methods}
    for result in results:
        if result.method in by_method:
            by_method[result.method][result.number] = result.score
    there = {method: of_one for method, of_one in by_method.items() if of_one}
    if not there:
        return {}
    common = sorted(set.intersection(*(set(of_one) for of_one in there.values())))
    return {method: np.array([of_one[number] for number in common]) for method, of_one in there.items()}
