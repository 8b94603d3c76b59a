"""A mixture and the search that found it, as text and as HTML."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amofa._model.report import report_of_model
from amofa._model.text import aligned, counted, html_table
from amofa._noise import Noise
from amofa._parameters import Component, Parameters
from amofa.history import FitReport, Step

# Names of features are shown in lines of about this length, up to this number of them.
_WIDTH, _SHOWN_NAMES = 100, 40
# Columns and components whose means are shown; `MixtureOfFactorAnalyzers.report` has all.
_SHOWN_COLUMNS, _SHOWN_COMPONENTS = 12, 12
_SEARCH = "search"


class Summary(str):
    """A text that a console and a notebook show as it is, with its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Section(NamedTuple):
    title: str
    table: list[list[str]]
    left: tuple[int, ...] = ()  # columns that are aligned to the left


def summarize(
    parameters: Parameters,
    n_parameters: int,
    report: FitReport | None,
    feature_names: Sequence[str] | None = None,
) -> Summary:
    """Return tables of the components, their means and, after a fit, the accepted steps of the search."""
    parts = [_heading(parameters, n_parameters, report)]
    if feature_names is not None:
        parts[0] += "\n" + _features(feature_names)
    for section in _sections(parameters, report, feature_names):
        title = f"{section.title}\n" if section.title else ""
        parts.append(f"{title}{aligned(section.table, section.left)}")
    return Summary("\n\n".join(parts))


def summarize_in_html(
    parameters: Parameters,
    n_parameters: int,
    report: FitReport | None,
    feature_names: Sequence[str] | None = None,
) -> str:
    """Return the same as HTML; the steps of the search are folded."""
    heading = _heading(parameters, n_parameters, report).replace("\n", "<br>")
    parts = [f"<p>{heading}</p>"]
    for section in _sections(parameters, report, feature_names):
        if section.title.startswith(_SEARCH):
            parts.append(f"<details><summary>{section.title}</summary>{html_table(section.table)}</details>")
        else:
            parts.append(html_table(section.table, section.title))
    return f"<div>{''.join(parts)}</div>"


def _sections(parameters: Parameters, report: FitReport | None, feature_names: Sequence[str] | None) -> list[_Section]:
    sections = [_Section("", _components_table(parameters, report))]
    means = report_of_model(parameters, None if feature_names is None else tuple(feature_names))
    for title, table in means._columns_tables(_SHOWN_COLUMNS, _SHOWN_COMPONENTS):
        sections.append(_Section(title, table, (0,)))
    if report and report.history:
        sections.append(_search_section(report.history))
    return sections


def _heading(parameters: Parameters, n_parameters: int, report: FitReport | None) -> str:
    K, d = parameters.n_components, parameters.n_features
    heading = (
        f"Mixture of {counted(K, 'factor analyser')}: {counted(d, 'feature')}, "
        f"{counted(n_parameters, 'free parameter')}"
    )
    if parameters.background is not None:
        background = parameters.background
        heading += f"\nbeside a background, {background.density.kind}, of {background.weight:.2%} of the rows"
    if report is None:
        return heading
    if report.noise is not None and Noise(report.noise).is_joint:
        heading += f"\nwith {report.noise.replace('_', ' ')}" + (" noise" if report.noise == Noise.SCALED else "")
    heading += f"\nfitted by {report.criterion} to {report.n_samples:.10g} rows"
    if math.isnan(report.log_likelihood):
        return f"{heading} of a stream"
    return f"{heading}, {'converged' if report.converged else 'not converged'}: {_figures(report)}"


def _figures(report: FitReport) -> str:
    """Return the cost, if it is known, and the log-likelihood; the message length only if that was minimised."""
    figures = {} if math.isnan(report.cost) else {"cost": report.cost}
    if report.criterion == "mml":
        figures["message length"] = report.message_length
    figures["log-likelihood"] = report.log_likelihood
    return ", ".join(f"{name} {value:.2f} nats" for name, value in figures.items())


def _features(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")
    return textwrap.fill(f"features: {shown}", _WIDTH, subsequent_indent="  ", break_long_words=False)


def _components_table(parameters: Parameters, report: FitReport | None) -> list[list[str]]:
    rows = [["component", "weight", "factors", "mean uniqueness share"]]
    for k, component in enumerate(parameters.components()):
        share = _mean_uniqueness_share(component)
        rows.append([str(k), f"{component.weight:.4f}", str(len(component.loadings)), f"{share:.3f}"])
    if np.isfinite(parameters.degrees_of_freedom).any():
        shown = [f"{nu:.3g}" for nu in parameters.degrees_of_freedom]
        for row, cell in zip(rows, ["degrees of freedom", *shown], strict=True):
            row.append(cell)
    if report is not None and report.at_floor.any():
        for row, cell in zip(rows, ["features at floor", *map(str, report.at_floor.sum(axis=1))], strict=True):
            row.append(cell)
    return rows


def _mean_uniqueness_share(component: Component) -> float:
    """Return the part of the variance that the factors do not explain, averaged over features."""
    # Relative to the uniqueness, so that squares of loadings and variances near the ends of the range do not overflow.
    with np.errstate(under="ignore"):
        explained = (component.loadings / component.uniquenesses**0.5) ** 2
        return float((1 / (1 + explained.sum(axis=0))).mean())


def _search_section(history: Sequence[Step]) -> _Section:
    rows = [["step", "action", "components", "factors", "cost", "log-likelihood", "iterations"]]
    for i, step in enumerate(history):
        if step.accepted:
            action = step.action if step.component < 0 else f"{step.action} {step.component}"
            values = [f"{v:.2f}" for v in (step.cost, step.log_likelihood)]
            factors = " ".join(map(str, step.n_factors))
            rows.append([str(i), action, str(step.n_components), factors, *values, str(step.n_iter)])
    return _Section(f"{_SEARCH}: {len(rows) - 1} of {counted(len(history), 'step')} accepted (nats)", rows)
