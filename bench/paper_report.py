"""Write a report in Markdown with published and measured figures side by side."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from paper_data import CLASSIFICATION_SETS, EXAMPLE_SETS, EXAMPLES, n_folds
from paper_methods import CLASSIFIERS, CLUSTERING, METHODS
from paper_results import Result, ResultsFile, scores
from paper_statistics import Scores, marks, paired_t, record, sign_test

TITLES = {
    "example1": "Example 1: three separable Gaussians",
    "example2": "Example 2: overlapping Gaussians, the authors' sets",
    "example2-drawn": "Example 2: overlapping Gaussians, drawn anew",
}


class Published(NamedTuple):
    """A figure of the paper, or of the authors' program; `spread` and `mark` may be empty."""

    value: str
    spread: str
    mark: str
    source: str


def published() -> dict[tuple[str, str, str], list[Published]]:
    """Return the published figures of (data, method, figure), the paper's first."""
    figures: dict[tuple[str, str, str], list[Published]] = {}
    with (Path(__file__).parent / "published.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            key = line["data"], line["method"], line["figure"]
            figures.setdefault(key, []).append(Published(line["value"], line["spread"], line["mark"], line["source"]))
    return figures


PUBLISHED = published()


def report(file: ResultsFile, experiments: Iterable[str]) -> str:
    """Return the report of the results in a file.

    Parameters
    ----------
    file : ResultsFile
    experiments : iterable of {"example1", "example2", "classification"}
        Experiments to report.
    """
    versions = sorted({result.version for result in file.results.values()})
    parts = [
        "# The paper's experiments",
        "H. Kaya, A. A. Salah, *Adaptive Mixtures of Factor Analyzers*, arXiv:1507.02801, Section 4, done again with "
        f"amofa {', '.join(versions)}. Seconds are CPU seconds of the fits, one thread each.",
        "## Methods",
        bullets(f"{method.title} (`{name}`): {method.about}." for name, method in METHODS.items()),
    ]
    for experiment in experiments:
        if experiment == "classification":
            parts += classification(file)
        else:
            for data in EXAMPLES:
                if data.startswith(experiment) and file.of(data):
                    parts += clustering(data, file.of(data))
    return "\n\n".join(parts) + "\n"


# ---- clustering ------------------------------------------------------------------------------------------------------


def clustering(data: str, results: Sequence[Result]) -> list[str]:
    """Return the section of one example."""
    distances = scores(results, CLUSTERING)
    n = len({result.number for result in results})
    return [
        f"## {TITLES[data]}",
        f"{n} of {EXAMPLE_SETS} sets; the true number of components is {EXAMPLES[data]}. NID: normalised information "
        "distance of true and found clusters, 0 for the same. In brackets the published figure, and after the "
        "semicolon that of the authors' program under GNU Octave, where there are any; both of 100 sets.",
        table(
            ["method", "sets", "K right", "K found (sets)", "NID, mean ± sd", "CPU seconds per fit"],
            [
                clustering_line(data, method, [result for result in results if result.method == method])
                for method in distances
            ],
        ),
        f"Paired two-sided t-tests of NID on the {len(next(iter(distances.values())))} sets that all methods have: "
        "mean difference of row and column, below 0 where the row is better, and its p-value.",
        t_tests(distances),
    ]


def clustering_line(data: str, method: str, results: Sequence[Result]) -> list[str]:
    counts = Counter(result.n_components[0] for result in results)
    distances = np.array([result.score for result in results])
    return [
        METHODS[method].title,
        str(len(results)),
        f"{counts[EXAMPLES[data]]} of {len(results)}{bracket(data, method, 'K right of 100')}",
        ", ".join(f"{K} ({count})" for K, count in sorted(counts.items())),
        f"{mean_spread(distances, 4)}{bracket(data, method, 'NID')}",
        f"{np.mean([result.seconds for result in results]):.3g}",
    ]


def bracket(data: str, method: str, figure: str) -> str:
    """Return published figures in brackets, with a space before, or an empty text."""
    there = PUBLISHED.get((data, method, figure), [])
    paper = [f.value for f in there if "arXiv" in f.source]
    program = [f.value for f in there if "arXiv" not in f.source]
    return f" [{'; '.join([*paper, *program])}]" if paper else f" [; {program[0]}]" if program else ""


def t_tests(distances: dict[str, Scores]) -> str:
    def cell(a: str, b: str) -> str:
        if a == b:
            return ""
        return f"{np.mean(distances[a] - distances[b]):+.4f}, {p_value(paired_t(distances[a], distances[b]))}"

    rows = [[METHODS[a].title, *(cell(a, b) for b in distances)] for a in distances]
    return table(["", *(METHODS[b].title for b in distances)], rows)


# ---- classification --------------------------------------------------------------------------------------------------


def classification(file: ResultsFile) -> list[str]:
    """Return the section of the paper's nine sets."""
    measured = {data: scores(file.of(data), CLASSIFIERS) for data in CLASSIFICATION_SETS}
    measured = {data: of_methods for data, of_methods in measured.items() if of_methods}
    methods = [method for method in CLASSIFIERS if any(method in of_one for of_one in measured.values())]
    return [
        "## Classification",
        "One mixture per class, classes equally probable. Accuracy in percent, mean ± standard deviation over the "
        "folds that all methods have: ten contiguous ones of the whole set, unless the table says otherwise. Bold: the "
        "best mean, and all that it is not better than at level 0.05 of a one-tailed paired t-test; alone and better "
        "than the runner-up at level 0.05 (\\*) or 0.01 (\\*\\*).",
        accuracies(measured, methods),
        bullets(remarks(measured)),
        "### Wins, ties and losses",
        "Sets on which the row is better than the column, neither is, or worse, at level 0.05 of one-tailed paired "
        "t-tests over folds. In brackets the published record, of nine sets.",
        records(measured, methods),
        "### Sign tests",
        "Sets on which the mean accuracy of the row is larger and smaller than that of the column, and the two-sided "
        "p-value.",
        sign_tests(measured, methods),
        "### Components and time",
        "Mean number of components of a class, and of factors of a component where there are any; CPU seconds of all "
        "fits of a fold, mean.",
        sizes(file, measured, methods),
    ]


def accuracies(measured: dict[str, dict[str, Scores]], methods: Sequence[str]) -> str:
    rows = []
    for data in CLASSIFICATION_SETS:
        if data in measured:
            of_one, best = measured[data], marks_of(measured[data])
            n = len(next(iter(of_one.values())))
            shown = [marked(mean_spread(of_one[m], 1), best[m]) if m in of_one else "" for m in methods]
            rows.append([data, f"measured, {n} of {n_folds(data)}", *shown])
        rows.append([data, "published", *(published_accuracy(data, method) for method in methods)])
    return table(["set", "folds", *(METHODS[method].title for method in methods)], rows)


def marks_of(of_methods: dict[str, Scores]) -> dict[str, str]:
    """Return the marks, empty if there are too few folds for a test."""
    tested = len(next(iter(of_methods.values()))) > 1
    return marks(of_methods) if tested else dict.fromkeys(of_methods, "")


def published_accuracy(data: str, method: str) -> str:
    there = PUBLISHED.get((data, method, "accuracy"))
    return marked(f"{there[0].value} ± {there[0].spread}", there[0].mark) if there else ""


def marked(text: str, mark: str) -> str:
    return f"**{text}**{mark.removeprefix('best').replace('*', chr(92) + '*')}" if mark else text


def remarks(measured: dict[str, object]) -> Iterable[str]:
    for data, about in CLASSIFICATION_SETS.items():
        state = "not available" if about.file is None else "" if data in measured else "not run"
        yield f"{data}: {about.title}{', ' + state if state else ''}; {about.remark}."


def records(measured: dict[str, dict[str, Scores]], methods: Sequence[str]) -> str:
    tested = {data: of_one for data, of_one in measured.items() if len(next(iter(of_one.values()))) > 1}

    def cell(a: str, b: str) -> str:
        found = record(*({data: of_one[m] for data, of_one in tested.items() if m in of_one} for m in (a, b)))
        there = PUBLISHED.get(("nine sets", a, f"against {b}"))
        return f"{found}{f' [{there[0].value}]' if there else ''}"

    return pairs(methods, cell)


def sign_tests(measured: dict[str, dict[str, Scores]], methods: Sequence[str]) -> str:
    def cell(a: str, b: str) -> str:
        means = [(of_one[a].mean(), of_one[b].mean()) for of_one in measured.values() if a in of_one and b in of_one]
        if not means:
            return ""
        found = sign_test(*np.array(means).T)
        return f"{found.larger}, {found.smaller}, {p_value(found.p)}"

    return pairs(methods, cell)


def pairs(methods: Sequence[str], cell) -> str:
    """Return a table of all pairs, with the first one in the row."""
    cells = {(a, b): cell(a, b) for a, b in combinations(in_papers_order(methods), 2)}
    order = in_papers_order(methods)
    rows = [[METHODS[a].title, *(cells.get((a, b), "") for b in order[1:])] for a in order[:-1]]
    return table(["", *(METHODS[b].title for b in order[1:])], rows)


def in_papers_order(methods: Sequence[str]) -> list[str]:
    """Sort with IMoFA-L first, as in the paper's table of records, so that pairs are in the same places."""
    return sorted(methods, key=lambda method: method != "imofa")


def sizes(file: ResultsFile, measured: dict[str, object], methods: Sequence[str]) -> str:
    rows = []
    for data in measured:
        cells = []
        for method in methods:
            results = [result for result in file.of(data) if result.method == method]
            cells.append(size(results) if results else "")
        rows.append([data, *cells])
    return table(["set", *(METHODS[method].title for method in methods)], rows)


def size(results: Sequence[Result]) -> str:
    components = np.mean([K for result in results for K in result.n_components])
    factors = [p for result in results for p in result.n_factors]
    shown = f"{components:.1f} x {np.mean(factors):.1f}" if factors else f"{components:.1f}"
    return f"{shown}, {np.mean([result.seconds for result in results]):.3g} s"


# ---- words -----------------------------------------------------------------------------------------------------------


def mean_spread(values: Scores, digits: int) -> str:
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def p_value(p: float) -> str:
    return "no test" if np.isnan(p) else f"p = {p:.2g}" if p >= 1e-10 else "p < 1e-10"


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
