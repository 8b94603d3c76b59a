"""The two directions in which a mixture is drawn: two columns, or the plane that separates its components best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from amofa._data.checks import check_incomplete_table
from amofa._data.dataframes import check_same_names, column_names, column_positions
from amofa._model.base import BaseMixture
from amofa._model.framed import FramedMixture
from amofa._model.tails import radius_of_same_mass
from amofa._model.text import counted
from amofa._typing import FloatArray
from amofa.plot._axes import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amofa.mixture import MixtureOfFactorAnalyzers

# With more columns the plane is searched in the span of means and loadings, without (d, d) arrays.
_WIDE = 1000
# Share of the largest eigenvalue below which a direction has no variance.
_RANK_TOLERANCE = 1e-12
# If nothing separates the components, or a single direction does, principal axes complete the plane.
_TIE_BREAK = 1e-6
# Smallest variance of a component along a direction, as a share of the mixture's, so that one at its floor does not
# decide everything.
_NARROWEST = 0.01
# The heaviest components that make up this share of the mixture decide the plane, so that the others, which may be a
# few rows far away, do not press the bulk together.
_BULK = 0.98
# Columns are blurred by this share of their variance: groups that are told apart only in combinations of columns that
# hardly vary, such as differences of near copies, make no picture.
_BLUR = 0.05
# Candidate directions of each kind for a plane, and the smallest sine of the angle between two of them.
_CANDIDATES, _LEAST_ANGLE = 3, 1e-3
# Ascent steps from the best of these planes.
_CLIMB = 50
# Number of columns named in the label of an axis, and the smallest coefficient relative to the largest.
_MOST_TERMS, _LEAST_TERM = 3, 0.25
# Characters of such a name.
_TERM_LENGTH = 24
# Rows farther outside these quantiles than this share of the distance between them are left out of a picture.
_QUANTILES, _OUTSIDE, _MARGIN = (0.01, 0.99), 0.5, 0.05
# Ellipses are drawn at these distances from the mean, in standard deviations.
DEVIATIONS = (1.0, 2.0)
# Points of the unit circle.
CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 121)), np.sin(np.linspace(0, 2 * np.pi, 121))])


@dataclass(frozen=True)
class View:
    """Two directions of a mixture's space."""

    columns: NDArray[np.intp]  # on which the directions depend, (c,)
    directions: FloatArray  # (2, c): coordinates are X[:, columns] @ directions.T
    labels: tuple[str, str]  # of the two axes
    means: FloatArray  # of the components in these coordinates, (K, 2)
    covariances: FloatArray  # likewise, (K, 2, 2); scale matrices of t components
    degrees_of_freedom: FloatArray  # of the components, (K,)

    def points(self, rows: NDArray[Any]) -> FloatArray:
        """Return the coordinates (n, 2) of rows (n, d)."""
        points: FloatArray = rows[:, self.columns].astype(np.float64) @ self.directions.T
        return points

    def of(self, model: BaseMixture) -> View:
        """Return the same directions with the components of another model."""
        return _view(model, self.columns, self.directions, self.labels)

    def ellipse(self, k: int, deviations: float) -> FloatArray:
        """Return points (2, 121) a number of standard deviations from the mean of component k.

        The ellipse of a t component has as much mass as that of a normal one.
        """
        radius = radius_of_same_mass(float(self.degrees_of_freedom[k]), deviations)
        values, vectors = np.linalg.eigh(self.covariances[k])
        axes = vectors * np.sqrt(np.maximum(values, 0.0))
        ellipse: FloatArray = self.means[k][:, None] + radius * axes @ CIRCLE
        return ellipse


def check_model(model: Any) -> MixtureOfFactorAnalyzers:
    """Return a mixture, with arrays as results, after a check; the error says where an estimator has one."""
    if not isinstance(model, FramedMixture):
        remedy = "; pass its model_" if hasattr(model, "model_") else ""
        raise TypeError(f"model must be a MixtureOfFactorAnalyzers, got {type(model).__name__}{remedy}")
    return cast("MixtureOfFactorAnalyzers", model._with_arrays())


def check_rows(model: MixtureOfFactorAnalyzers, X: ArrayLike) -> NDArray[Any]:
    """Return X as a table (n, d) that matches the model; cells may be NaN."""
    check_same_names(column_names(X), model.feature_names)
    return check_incomplete_table(X, n_features=model.n_features)[0]


def feature_names(model: BaseMixture) -> tuple[str, ...]:
    """Return the names of the columns: those of the model, or x0, x1, ..."""
    return model.feature_names or tuple(f"x{j}" for j in range(model.n_features))


def legend_texts(model: MixtureOfFactorAnalyzers) -> list[str]:
    """Return the texts of the components in a legend, with their shares of the mixture."""
    shares = model.weights * (1.0 - model.background_weight)
    return [
        f"{k}: {share:.1%}, {counted(p, 'factor')}"
        for k, (share, p) in enumerate(zip(shares, model.n_factors.tolist(), strict=True))
    ]


def background_text(model: MixtureOfFactorAnalyzers) -> str:
    return f"background: {model.background_weight:.1%}"


def whole_rows(model: MixtureOfFactorAnalyzers, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the rows with their missing cells filled in."""
    return model.impute(rows) if np.isnan(rows).any() else rows


def limit_axes(ax: Axes, view: View, weights: FloatArray, points: FloatArray | None) -> None:
    """Set limits that show the bulk of points, or of the mixture without points; a note counts points outside."""
    if points is None or not len(points):
        heavy = np.flatnonzero(bulk_weights(weights))
        points = np.concatenate([view.ellipse(int(k), 1.1 * DEVIATIONS[-1]).T for k in heavy])
    lower, upper = np.quantile(points, _QUANTILES, axis=0)
    reach = _OUTSIDE * (upper - lower)
    lower, upper = np.maximum(points.min(axis=0), lower - reach), np.minimum(points.max(axis=0), upper + reach)
    margin = np.where(upper > lower, _MARGIN * (upper - lower), 0.5)
    ax.set_xlim(lower[0] - margin[0], upper[0] + margin[0])
    ax.set_ylim(lower[1] - margin[1], upper[1] + margin[1])
    n_outside = int(((points < lower - margin) | (points > upper + margin)).any(axis=1).sum())
    if n_outside:
        text, color = f"{counted(n_outside, 'row')} outside", ink(ax, 0.7)
        ax.text(0.99, 0.01, text, transform=ax.transAxes, ha="right", va="bottom", fontsize="x-small", color=color)


def make_view(model: BaseMixture, columns: Sequence[int | str] | None) -> View:
    """Return the view of two columns, by number or name, or by default of the discriminating plane."""
    check_model(model)
    names = feature_names(model)
    if columns is None and model.n_features > 2:
        return _plane_view(model, names)
    if model.n_features == 1:
        raise ValueError("the model has one column, and no plane; use amofa.plot.density")
    pair = (0, 1) if columns is None else columns
    positions = column_positions(pair, model.feature_names, model.n_features, name="columns")
    if len(positions) != 2:
        raise ValueError(f"columns must be two columns, got {len(positions)}")
    first, second = positions.tolist()
    return _view(model, positions, np.eye(2), (names[first], names[second]))


def _plane_view(model: BaseMixture, names: Sequence[str]) -> View:
    scale = _deviations(model, bulk_weights(model.weights))
    standardized = discriminating_directions(model, scale)
    labels = tuple(f"direction {i + 1}: {_terms(row, names)}" for i, row in enumerate(standardized))
    return _view(model, np.arange(len(scale)), standardized / scale, (labels[0], labels[1]))


def _view(model: BaseMixture, columns: NDArray[np.intp], directions: FloatArray, labels: tuple[str, str]) -> View:
    covariances = np.empty((model.n_components, 2, 2))
    for k, loadings in enumerate(model.loadings):
        projected = directions @ loadings[columns]
        covariances[k] = projected @ projected.T + directions * model.uniquenesses[k, columns] @ directions.T
    means = model.means[:, columns] @ directions.T
    return View(columns, directions, labels, means, covariances, model.degrees_of_freedom)


def _terms(coefficients: FloatArray, names: Sequence[str]) -> str:
    """Describe a direction by its largest coefficients, for columns in units of their standard deviations."""
    shares = coefficients / np.linalg.norm(coefficients)
    order = np.argsort(-np.abs(shares), kind="stable")
    shown = [j for j in order[:_MOST_TERMS] if abs(shares[j]) >= _LEAST_TERM * abs(shares[order[0]])]
    signs = {True: "+", False: "\N{MINUS SIGN}"}
    text = " ".join(f"{signs[bool(shares[j] > 0)]} {abs(shares[j]):.2f} {_short(names[j])}" for j in shown)
    # The largest is positive.
    return text.removeprefix("+ ")


def _short(name: str) -> str:
    return name if len(name) <= _TERM_LENGTH else f"{name[: _TERM_LENGTH - 1]}…"


# ---- the discriminating plane ----------------------------------------------------------------------------------------


def bulk_weights(weights: FloatArray) -> FloatArray:
    """Return the weights of the heaviest components that make up most of a mixture, with sum 1; of the others, 0."""
    order = np.argsort(-weights, kind="stable")
    n_heavy = int(np.searchsorted(np.cumsum(weights[order]), _BULK * weights.sum())) + 1
    bulk = np.zeros_like(weights)
    bulk[order[:n_heavy]] = weights[order[:n_heavy]]
    bulk /= bulk.sum()
    return bulk


def _deviations(model: BaseMixture, weights: FloatArray) -> FloatArray:
    """Return the standard deviations of the columns under the mixture, (d,), by the scales of t components."""
    within = np.stack([(loadings**2).sum(axis=1) for loadings in model.loadings]) + model.uniquenesses
    between = (model.means - weights @ model.means) ** 2
    deviations: FloatArray = np.sqrt(weights @ (within + between))
    return deviations


def discriminating_directions(model: BaseMixture, scale: FloatArray) -> FloatArray:
    """Find the two directions (2, d) in which the components differ most, in means and in covariances.

    They are for columns in units of their standard deviations, scale (d,). The bulk of the mixture, its heaviest
    components, has variance 1 along each direction, and no covariance between them; the means differ most along the
    first one. The largest coefficient of each is positive.

    This is the plane with the largest gain, in nats, of one Gaussian for each component over one for all, log det(V S
    V') - sum_k w_k log det(V S_k V'): heteroscedastic discriminant analysis [1]_. It is that of the bulk, with a little
    noise added to all columns, so that groups which differ only where columns hardly vary do not decide. Ascent starts
    from the best pair of the directions in which means or covariances differ most. No component counts as narrower than
    a tenth of the whole. If there is nothing to gain, these are the leading principal axes. The cost is O(K d^2 + d^3)
    up to 1000 columns. With more columns, the directions are searched in the span of the means and loadings, divided by
    the mean uniquenesses: that is where they lie if uniquenesses are shared. Scale matrices of t components are taken
    for covariances.

    References
    ----------
    .. [1] N. Kumar, A. G. Andreou, "Heteroscedastic discriminant analysis and reduced rank HMMs for improved speech
       recognition", Speech Communication 26 (1998) 283-297.
    """
    weights = bulk_weights(model.weights)
    centered = (model.means - weights @ model.means) / scale
    loadings = [of_one / scale[:, None] for of_one in model.loadings]
    noise = model.uniquenesses / scale**2
    basis = np.eye(len(scale)) if len(scale) <= _WIDE else _span([centered.T, *loadings], weights @ noise + _BLUR)
    means = centered @ basis.T
    covariances = np.stack([_restricted(basis, of_one, own) for of_one, own in zip(loadings, noise, strict=True)])
    between = (means * weights[:, None]).T @ means
    whole = np.einsum("k,kij->ij", weights, covariances) + between
    blur = _BLUR * np.eye(len(between))
    covariances += blur
    values, axes = np.linalg.eigh(whole + blur)
    largest = values[-1]
    values = np.maximum(values / largest, _RANK_TOLERANCE)
    # The coordinates in which the whole mixture has the covariance 1.
    whitening = axes / np.sqrt(largest * values)
    between = whitening.T @ between @ whitening
    covariances = _NARROWEST * np.eye(len(between)) + (1 - _NARROWEST) * (whitening.T @ covariances @ whitening)
    principal = np.diag(values)
    plane = _best_plane(weights, covariances, between, principal)
    _, turn = np.linalg.eigh(plane @ (between + _TIE_BREAK * principal) @ plane.T)
    blurred = turn.T[::-1] @ plane @ whitening.T
    directions: FloatArray = np.linalg.solve(np.linalg.cholesky(blurred @ whole @ blurred.T), blurred) @ basis
    signs = np.sign(np.take_along_axis(directions, np.argmax(np.abs(directions), axis=1)[:, None], axis=1))
    return directions * signs


def _best_plane(weights: FloatArray, covariances: FloatArray, between: FloatArray, principal: FloatArray) -> FloatArray:
    """Return the orthonormal rows (2, m) of the plane with the largest gain; see `discriminating_directions`."""
    within = np.einsum("k,kij->ij", weights, covariances)
    spread = np.einsum("k,kij->ij", weights, (covariances - within) @ (covariances - within))
    candidates = np.concatenate([_leading(kernel + _TIE_BREAK * principal) for kernel in (between, spread)])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the gain of the plane of two rows, and its gradient."""
        plane = flat.reshape(2, -1)
        value, slope = -_log_det(plane @ plane.T), -2 * np.linalg.solve(plane @ plane.T, plane)
        for weight, covariance in zip(weights, covariances, strict=True):
            projected = plane @ covariance
            inner = projected @ plane.T
            value += weight * _log_det(inner)
            slope += 2 * weight * np.linalg.solve(inner, projected)
        return value, np.asarray(slope.ravel(), dtype=np.float64)

    pairs = [np.linalg.qr(candidates[list(pair)].T) for pair in combinations(range(len(candidates)), 2)]
    starts = [q.T for q, r in pairs if abs(r[1, 1]) > _LEAST_ANGLE]
    # Rounding makes no difference: of equal planes, take the first, that of the leading directions.
    start = min(starts, key=lambda plane: round(loss(plane.ravel())[0], 6))
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _CLIMB})
    plane: FloatArray = np.linalg.qr(found.x.reshape(2, -1).T)[0].T
    return plane


def _leading(kernel: FloatArray) -> FloatArray:
    """Return the leading eigenvectors as rows."""
    vectors: FloatArray = np.linalg.eigh(kernel)[1].T[: -_CANDIDATES - 1 : -1]
    return vectors


def _log_det(matrix: FloatArray) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def _restricted(basis: FloatArray, loadings: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the covariance of a component in the coordinates of a basis."""
    projected = basis @ loadings
    covariance: FloatArray = projected @ projected.T + basis * noise @ basis.T
    return covariance


def _span(parts: Sequence[FloatArray], noise: FloatArray) -> FloatArray:
    """Return an orthonormal basis, as rows, of columns over the noise, extended by two columns of the table."""
    columns = np.concatenate([*parts, np.eye(len(noise), 2) * noise[:, None]], axis=1) / noise[:, None]
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    basis: FloatArray = left[:, values > _RANK_TOLERANCE * values[0]].T
    return basis
