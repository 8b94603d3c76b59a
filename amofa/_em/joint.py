"""Families whose components have something in common: their joint M-steps, from the moments of the components.

With common loadings, each component has its own uniquenesses: Sigma_k = Lambda Lambda' + Psi_k. With scaled noise, each
has its own loadings, and a multiple of the same uniquenesses: Sigma_k = Lambda_k Lambda_k' + c_k Psi.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from amofa._em.factor_analysis import Covariance, FactorChoice, Prior
from amofa._kernels._factor_analysis import Solver
from amofa._kernels._noise import maximize_isotropic
from amofa._noise import Noise, log_shape_and_scales
from amofa._parameters import Component, Parameters
from amofa._typing import BoolArray, FloatArray

# With labels held, at most this many steps follow a change of the numbers of factors, until one gains less than this,
# in nats: what is far behind need not be known exactly.
_STEPS, _LEAST_STEP = 10, 0.01
# Rounds of a start, in which numbers of factors follow the noise, and the noise follows them.
_START_ROUNDS = 4
# Smallest eigenvalue that a new factor is made for: with none, it would have no direction to grow in.
_LEAST_EXCESS = 0.05
# The largest steps: of extrapolation, in steps of EM, and of logarithms of variances.
_LONGEST_EXTRAPOLATION, _LONGEST_STEP = 16.0, 2.0
# Newton steps for scaled noise: relative ridge, sufficient decrease, and how often a step is shortened to a quarter.
_RIDGE, _SUFFICIENT, _MOST_HALVINGS = 1e-3, 1e-4, 6
# Saving of another number of factors, in nats, that is more than rounding.
_LEAST_SAVING = 1e-3
# Iterations for a variance with a prior, and their precision.
_NOISE_STEPS, _NOISE_PRECISION = 50, 1e-12


class GroupMoments(NamedTuple):
    """Counts (K,), means (K, d) and covariance matrices (K, d, d) of the rows of components."""

    counts: FloatArray
    means: FloatArray
    covariances: FloatArray

    @property
    def variances(self) -> FloatArray:
        variances: FloatArray = np.einsum("kjj->kj", self.covariances)
        return variances

    @property
    def shares(self) -> FloatArray:
        shares: FloatArray = self.counts / self.counts.sum()
        return shares

    @property
    def pooled(self) -> FloatArray:
        """The covariance matrix within components, (d, d)."""
        pooled: FloatArray = np.einsum("k,kij->ij", self.shares, self.covariances)
        return pooled

    def checked(self) -> GroupMoments:
        """Return moments without those of components that have no rows.

        Raises FloatingPointError if the others are not finite.
        """
        is_empty = self.counts == 0
        d = self.means.shape[1]
        covariances = np.where(is_empty[:, None, None], np.eye(d), self.covariances)
        if not (np.isfinite(covariances).all() and self.counts.sum() > 0):
            raise FloatingPointError("moments of a component are not finite")
        return self._replace(covariances=covariances)


def joint_family(choice: FactorChoice, solver: Solver) -> JointFamily:
    """Return the family with a joint M-step that a choice of the numbers of factors is for."""
    return CommonLoadings(choice, solver) if choice.noise.has_common_loadings else ScaledNoise(choice, solver)


class JointFamily(ABC):
    """A family with a joint M-step, and the choice of its numbers of factors."""

    def __init__(self, choice: FactorChoice, solver: Solver) -> None:
        self.choice, self.prior, self.pricing, self.solver = choice, choice.prior, choice.pricing, solver

    @abstractmethod
    def maximize(self, moments: GroupMoments, parameters: Parameters) -> None:
        """Update loadings and uniquenesses in place; the penalised likelihood of the rows never falls."""

    @abstractmethod
    def with_chosen_factors(self, moments: GroupMoments, parameters: Parameters) -> Parameters:
        """Return a maximiser for these moments with the numbers of factors chosen again."""

    @abstractmethod
    def start(self, moments: GroupMoments) -> Parameters:
        """Return a mixture for groups of rows."""

    def _own_choice(self) -> FactorChoice:
        """Return the choice for a single analyser with uniquenesses of its own."""
        return replace(self.choice, noise=Noise.COMPONENT)

    def _most_factors(self, count: float) -> int:
        return self.choice.most_factors(count, Covariance(np.eye(len(self.prior.floor)), self.solver))

    def _analyser(self, count: float, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return loadings and uniquenesses of a single analyser."""
        spread = Covariance(covariance, self.solver)
        first = np.maximum(0.5 * spread.variances, self.prior.floor)
        found = self._own_choice().best(count, spread, first, 0)
        return found.loadings, found.uniquenesses

    def _price(self, moments: GroupMoments, n_factors: Sequence[int], log_determinants: FloatArray) -> float:
        shapes = zip(moments.counts.tolist(), n_factors, log_determinants.tolist(), strict=True)
        return self.pricing.mixture(list(shapes))


# ---- common loadings -------------------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """Common loadings (q, d) and the uniquenesses (K, d)."""

    loadings: FloatArray
    uniquenesses: FloatArray


class _Chosen(NamedTuple):
    cost: float  # with the price, in nats
    shape: _Shape


class CommonLoadings(JointFamily):
    """One set of loadings, and uniquenesses of each component.

    There is no closed form of the loadings unless uniquenesses are the same. A step is EM over the factors, with their
    covariance matrix as a further parameter that is divided out afterwards (Liu, Rubin & Wu 1998), extrapolated where
    that lowers the cost (Varadhan & Roland 2008).
    """

    def maximize(self, moments: GroupMoments, parameters: Parameters) -> None:
        shape = _Shape(parameters.component_loadings(0).copy(), parameters.uniquenesses.copy())
        shape, _ = self._extrapolated(moments.checked(), shape)
        for k in range(parameters.n_components):
            parameters.component_loadings(k)[:] = shape.loadings
        parameters.uniquenesses[:] = shape.uniquenesses

    def with_chosen_factors(self, moments: GroupMoments, parameters: Parameters) -> Parameters:
        shape = _Shape(parameters.component_loadings(0).copy(), parameters.uniquenesses.copy())
        moments = moments.checked()
        if self.choice.n_factors is None:
            shape = self._chosen(moments, shape)
        return _parameters(moments, [shape.loadings] * parameters.n_components, shape.uniquenesses, parameters)

    def start(self, moments: GroupMoments) -> Parameters:
        """Start from the analyser of the pooled covariance matrix."""
        moments, K = moments.checked(), len(moments.counts)
        loadings, noise = self._analyser(float(moments.counts.sum()), moments.pooled)
        shape = _Shape(loadings, np.repeat(noise[None], K, axis=0))
        shape = self._chosen(moments, shape) if self.choice.n_factors is None else self._fitted(moments, shape).shape
        return _parameters(moments, [shape.loadings] * K, shape.uniquenesses)

    def _chosen(self, moments: GroupMoments, shape: _Shape) -> _Shape:
        """Add a factor, or remove one, while that lowers the cost."""
        best, tried = self._fitted(moments, shape), {len(shape.loadings)}
        most = self._most_factors(float(moments.counts.sum()))
        while True:
            before = best
            q = len(before.shape.loadings)
            for number, change in ((q + 1, self._with_more), (q - 1, self._with_fewer)):
                if best is before and 0 <= number <= most and number not in tried:
                    tried.add(number)
                    other = self._fitted(moments, change(moments, before.shape))
                    best = other if other.cost < before.cost - _LEAST_SAVING else before
            if best is before:
                return best.shape

    def _with_more(self, moments: GroupMoments, shape: _Shape) -> _Shape:
        """Add the factor that explains most of what is left, in units of the mean noise."""
        loadings, shares = shape.loadings, moments.shares
        unit = np.exp(0.5 * shares @ np.log(shape.uniquenesses))
        left = moments.pooled - loadings.T @ loadings
        left -= np.diag(shares @ shape.uniquenesses)
        values, vectors = np.linalg.eigh(left / unit / unit[:, None])
        added = np.sqrt(max(float(values[-1]), _LEAST_EXCESS)) * unit * vectors[:, -1]
        return shape._replace(loadings=np.vstack([loadings, added]))

    def _with_fewer(self, moments: GroupMoments, shape: _Shape) -> _Shape:
        """Remove the factor that explains least, in units of the mean noise."""
        noise = np.exp(moments.shares @ np.log(shape.uniquenesses))
        _, rotation = np.linalg.eigh((shape.loadings / noise) @ shape.loadings.T)
        return shape._replace(loadings=(rotation.T @ shape.loadings)[1:])

    def _fitted(self, moments: GroupMoments, shape: _Shape) -> _Chosen:
        """Take some steps, and return the shape with its cost."""
        before = np.inf
        for _ in range(_STEPS):
            shape, cost = self._extrapolated(moments, shape)
            if before - cost < _LEAST_STEP:
                break
            before = cost
        cost, log_determinants, _ = self._step(moments, shape)
        n_factors = [len(shape.loadings)] * len(moments.counts)
        return _Chosen(cost + self._price(moments, n_factors, log_determinants), shape)

    def _extrapolated(self, moments: GroupMoments, shape: _Shape) -> tuple[_Shape, float]:
        """Take steps of EM and one beyond them; return the shape, and a bound of its cost."""
        _, _, first = self._step(moments, shape)
        _, _, second = self._step(moments, first)
        cost, _, third = self._step(moments, second)
        here, there, beyond = (_as_vector(each) for each in (shape, first, second))
        step, bend = there - here, (beyond - there) - (there - here)
        bent = float(np.linalg.norm(bend))
        length = float(np.linalg.norm(step)) / bent if bent > 0 else 1.0
        if length <= 1.0:
            return third, cost
        length = min(length, _LONGEST_EXTRAPOLATION)
        far = here + 2 * length * step + length**2 * bend
        trial = self._from_vector(beyond + np.clip(far - beyond, -_LONGEST_STEP, _LONGEST_STEP), shape)
        other, _, fourth = self._step(moments, trial)
        return (fourth, other) if other <= cost else (third, cost)

    def _from_vector(self, values: FloatArray, like: _Shape) -> _Shape:
        loadings, logs = np.split(values, [like.loadings.size])
        noise = np.maximum(np.exp(logs).reshape(like.uniquenesses.shape), self.prior.floor)
        return _Shape(loadings.reshape(like.loadings.shape), noise)

    def _step(self, moments: GroupMoments, shape: _Shape) -> tuple[float, FloatArray, _Shape]:
        """Return the cost of a shape, in nats, log |Sigma| of its components, and the shape after a step of EM."""
        loadings, noise = shape
        counts, variances = moments.counts, moments.variances
        # Factors given rows have the covariance P and means B (x - mean); C are their second moments.
        scaled = loadings / noise[:, None]
        P = np.linalg.inv(scaled @ loadings.T + np.eye(len(loadings)))
        log_determinants = np.log(noise).sum(axis=1) - np.linalg.slogdet(P)[1]
        B = P @ scaled
        BS = B @ moments.covariances
        traces = (variances / noise).sum(axis=1) - np.einsum("kqj,kqj->k", BS, scaled)
        cost = 0.5 * float(counts @ (log_determinants + traces))
        cost += self.prior.cost(noise, Noise.COMMON_LOADINGS)
        C = P + BS @ B.transpose(0, 2, 1)
        precisions = counts[:, None] / noise
        squares = np.einsum("kj,kab->jab", precisions, C)
        products = np.einsum("kj,kaj->ja", precisions, BS)
        new = np.linalg.solve(squares, products[..., None])[..., 0].T
        left = variances - 2 * np.einsum("aj,kaj->kj", new, BS) + np.einsum("aj,kab,bj->kj", new, C, new)
        best = best_uniquenesses(np.maximum(left, 0.0), counts, self.prior)
        root = np.linalg.cholesky(np.einsum("k,kab->ab", moments.shares, C))
        return cost, log_determinants, _Shape(root.T @ new, best)


def _as_vector(shape: _Shape) -> FloatArray:
    return np.concatenate([shape.loadings.ravel(), np.log(shape.uniquenesses).ravel()])


def best_uniquenesses(variances: FloatArray, counts: FloatArray, prior: Prior) -> FloatArray:
    """Return the uniquenesses (K, d) that cost least for variances (K, d) about the factors, at or above the floor.

    Each minimises n/2 (log psi + v / psi) and the cost of its prior, which is convex in log psi.
    """
    without_prior = np.maximum(variances, prior.floor)
    if prior.count == 0:
        return without_prior
    n, x, center = counts[:, None], np.log(without_prior), np.log(prior.scale)
    for _ in range(_NOISE_STEPS):
        tail, ratio = np.tanh(0.5 * (x - center)), variances * np.exp(-x)
        slope = n * (1 - ratio) + prior.count * tail
        step = slope / (n * ratio + 0.5 * prior.count * (1 - tail**2) + np.finfo(float).tiny)
        step = np.clip(step, -1.0, 1.0)
        x -= step
        if np.abs(step).max() < _NOISE_PRECISION:
            break
    return np.maximum(np.exp(x), prior.floor)


# ---- scaled noise ----------------------------------------------------------------------------------------------------


class _Spectra(NamedTuple):
    """Eigenvalues (K, d), falling, and eigenvectors (K, d, d), in rows, of whitened covariance matrices."""

    values: FloatArray
    vectors: FloatArray
    in_use: BoolArray  # (K, d) which have a factor

    @property
    def used_values(self) -> FloatArray:
        """The eigenvalues that have a factor, and 1 for the others."""
        return np.where(self.in_use, np.maximum(self.values, 1.0), 1.0)


class _Point(NamedTuple):
    """The logarithms of the common uniquenesses (d,) and of the scales (K,), which sum to 0, and what follows."""

    shape: FloatArray
    scales: FloatArray
    spectra: _Spectra
    cost: float  # without the price

    @property
    def log_noise(self) -> FloatArray:
        noise: FloatArray = self.shape + self.scales[:, None]
        return noise

    @property
    def log_determinants(self) -> FloatArray:
        determinants: FloatArray = self.log_noise.sum(axis=1) + np.log(self.spectra.used_values).sum(axis=1)
        return determinants


class _Scaled(NamedTuple):
    cost: float  # with the price, in nats
    point: _Point
    n_factors: tuple[int, ...]


class ScaledNoise(JointFamily):
    """Uniquenesses that are those of all times a scale of each component; loadings of each.

    With the best loadings for given uniquenesses, the cost is a function of shape and scales alone. A step is one of
    Newton's method in their logarithms, with the gradient and the approximate Hessian of separate uniquenesses.

    The prior of the common uniquenesses is that of shared ones. That of a scale has its centre at the geometric mean of
    all scales, and d times the exponent, so that a scale near it is worth as many rows as a uniqueness.
    """

    def maximize(self, moments: GroupMoments, parameters: Parameters) -> None:
        here = self._point(moments.checked(), parameters.n_factors, *log_shape_and_scales(parameters.uniquenesses))
        self._put(self._newton(moments.checked(), parameters.n_factors, here), parameters)

    def with_chosen_factors(self, moments: GroupMoments, parameters: Parameters) -> Parameters:
        moments = moments.checked()
        shape, scales = log_shape_and_scales(parameters.uniquenesses)
        best = self._fitted(moments, parameters.n_factors, shape, scales)
        if self.choice.n_factors is not None:
            return self._parameters(moments, best.point, best.n_factors, parameters)
        best = min(best, self._settled(moments, best.point.shape), key=lambda fit: fit.cost)
        best = self._with_fewer(moments, best)
        return self._parameters(moments, best.point, best.n_factors, parameters)

    def start(self, moments: GroupMoments) -> Parameters:
        """Start from the shape of the analysers of all components, and from that of their pooled covariance matrix."""
        moments = moments.checked()
        own = [
            self._analyser(max(float(count), 1.0), matrix)[1]
            for count, matrix in zip(moments.counts, moments.covariances, strict=True)
        ]
        pooled = self._analyser(float(moments.counts.sum()), moments.pooled)[1]
        found = [self._settled(moments, shape) for shape in (moments.shares @ np.log(np.array(own)), np.log(pooled))]
        best = min(found, key=lambda fit: fit.cost)
        return self._parameters(moments, best.point, best.n_factors)

    def _with_fewer(self, moments: GroupMoments, best: _Scaled) -> _Scaled:
        """Remove a factor of each component while that lowers the cost, which a shape may not show."""
        while any(best.n_factors):
            fewer = tuple(max(q - 1, 0) for q in best.n_factors)
            found = self._fitted(moments, fewer, best.point.shape, best.point.scales)
            if not found.cost < best.cost - _LEAST_SAVING:
                break
            best = found
        return best

    def _settled(self, moments: GroupMoments, shape: FloatArray) -> _Scaled:
        """Let shape and numbers of factors follow each other; return the best of the rounds."""
        best = self._fitted(moments, *self._given_shape(moments, shape))
        for _ in range(_START_ROUNDS - 1):
            found = self._fitted(moments, *self._given_shape(moments, best.point.shape))
            if not found.cost < best.cost - _LEAST_SAVING:
                break
            best = found
        return best

    def _given_shape(self, moments: GroupMoments, shape: FloatArray) -> tuple[tuple[int, ...], FloatArray, FloatArray]:
        """Return the best numbers of factors and scales for a shape, with the shape as scales that sum to 0 have it.

        In units of the shape, the noise of each component is isotropic.
        """
        d = len(shape)
        floor = np.full(d, float((self.prior.floor / np.exp(shape)).max()))
        ones, prior_count = np.ones(d), self.prior.count * d
        values = self._spectra(moments, np.repeat(shape[None], len(moments.counts), axis=0), ()).values
        n_factors, scales = [], []
        for k, count in enumerate(moments.counts.tolist()):
            candidates = []
            for q in self._numbers(count):
                variance, cost, determinant = maximize_isotropic(values[k], q, count, floor, prior_count, ones)
                cost += self.pricing.component(count, q, determinant + float(shape.sum()))
                candidates.append((cost, q, variance))
            _, number, scale = min(candidates)
            n_factors.append(number)
            scales.append(scale)
        logs = np.log(scales)
        return tuple(n_factors), shape + logs.mean(), logs - logs.mean()

    def _numbers(self, count: float) -> range:
        given = self.choice.n_factors
        return range(self._most_factors(count) + 1) if given is None else range(given, given + 1)

    def _fitted(
        self, moments: GroupMoments, n_factors: Sequence[int], shape: FloatArray, scales: FloatArray
    ) -> _Scaled:
        """Take some steps, and return where they lead."""
        here = self._point(moments, n_factors, shape, scales)
        for _ in range(_STEPS):
            there = self._newton(moments, n_factors, here)
            gain, here = here.cost - there.cost, there
            if gain < _LEAST_STEP:
                break
        cost = here.cost + self._price(moments, n_factors, here.log_determinants)
        return _Scaled(cost, here, tuple(n_factors))

    def _newton(self, moments: GroupMoments, n_factors: Sequence[int], here: _Point) -> _Point:
        """Take one Newton step, as far as the cost falls."""
        gradient, hessian = self._derivatives(moments, here)
        basis = self._directions(here, gradient)
        reduced = basis.T @ gradient
        step = -basis @ np.linalg.solve(basis.T @ hessian @ basis, reduced)
        step *= min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), _LONGEST_STEP))
        promised, d, shrink = -float(gradient @ step), len(here.shape), 1.0
        for _ in range(_MOST_HALVINGS):
            scales = here.scales + shrink * step[d:]
            scales -= scales.mean()
            shape = np.maximum(here.shape + shrink * step[:d], self._least_shape(scales))
            there = self._point(moments, n_factors, shape, scales)
            if there.cost <= here.cost - _SUFFICIENT * shrink * promised:
                return there
            shrink *= 0.25
        return here

    def _derivatives(self, moments: GroupMoments, here: _Point) -> tuple[FloatArray, FloatArray]:
        """Return gradient (d + K,) and approximate Hessian of the cost by the logarithms of shape and scales."""
        d, half, spectra = len(here.shape), 0.5 * moments.counts, here.spectra
        explained = np.einsum("kq,kqj->kj", spectra.used_values - 1.0, spectra.vectors**2)
        own = half[:, None] * (1.0 - moments.variances * np.exp(-here.log_noise) + explained)
        used = spectra.vectors * spectra.in_use[:, :, None]
        curvature = half[:, None, None] * (np.eye(d) - used.transpose(0, 2, 1) @ used) ** 2
        count = self.prior.count
        tail, tails = np.tanh(0.5 * (here.shape - np.log(self.prior.scale))), np.tanh(0.5 * here.scales)
        gradient = np.concatenate([own.sum(axis=0) + 0.5 * count * tail, own.sum(axis=1) + 0.5 * count * d * tails])
        of_shape = curvature.sum(axis=0) + np.diag(0.25 * count * (1.0 - tail**2))
        of_scales = np.diag(curvature.sum(axis=(1, 2)) + 0.25 * count * d * (1.0 - tails**2))
        both = curvature.sum(axis=1)
        hessian = np.block([[of_shape, both.T], [both, of_scales]])
        ridge = _RIDGE * float(np.diagonal(of_shape).max())
        return gradient, hessian + ridge * np.eye(len(hessian))

    def _directions(self, here: _Point, gradient: FloatArray) -> FloatArray:
        """Return a basis of the steps: scales sum to 0, and a uniqueness that is pressed against its floor stays."""
        d, K = len(here.shape), len(here.scales)
        held = (here.shape <= self._least_shape(here.scales)) & (gradient[:d] > 0)
        basis = np.zeros((d + K, d + K - 1))
        basis[:d, :d] = np.eye(d)
        # Helmert's contrasts.
        for k in range(1, K):
            basis[d : d + k, d + k - 1], basis[d + k, d + k - 1] = 1.0 / k, -1.0
        directions: FloatArray = basis[:, np.concatenate([np.flatnonzero(~held), np.arange(d, d + K - 1)])]
        return directions

    def _least_shape(self, scales: FloatArray) -> FloatArray:
        least: FloatArray = np.log(self.prior.floor) - scales.min()
        return least

    def _point(self, moments: GroupMoments, n_factors: Sequence[int], shape: FloatArray, scales: FloatArray) -> _Point:
        shape = np.maximum(shape, self._least_shape(scales))
        log_noise = shape + scales[:, None]
        spectra = self._spectra(moments, log_noise, n_factors)
        used = spectra.used_values
        parts = log_noise.sum(axis=1) + spectra.values.sum(axis=1) + (np.log(used) + 1.0 - used).sum(axis=1)
        cost = 0.5 * float(moments.counts @ parts) + self.prior.cost(np.exp(log_noise), Noise.SCALED)
        return _Point(shape, scales, spectra, cost)

    def _spectra(self, moments: GroupMoments, log_noise: FloatArray, n_factors: Sequence[int]) -> _Spectra:
        roots = np.exp(-0.5 * log_noise)
        values, vectors = np.linalg.eigh(moments.covariances * roots[:, :, None] * roots[:, None, :])
        values = np.ascontiguousarray(np.maximum(values[:, ::-1], 0.0))
        numbers = np.zeros(len(values), dtype=np.intp) if len(n_factors) == 0 else np.asarray(n_factors)
        in_use = (np.arange(values.shape[1]) < numbers[:, None]) & (values > 1.0)
        return _Spectra(values, np.ascontiguousarray(vectors[:, :, ::-1].transpose(0, 2, 1)), in_use)

    def _parameters(
        self, moments: GroupMoments, point: _Point, n_factors: Sequence[int], like: Parameters | None = None
    ) -> Parameters:
        none = [np.zeros((q, len(point.shape))) for q in n_factors]
        found = _parameters(moments, none, np.exp(point.log_noise), like)
        self._put(point, found)
        return found

    def _put(self, point: _Point, parameters: Parameters) -> None:
        """Set uniquenesses, and the best loadings for them."""
        noise, spectra, d = np.exp(point.log_noise), point.spectra, len(point.shape)
        parameters.uniquenesses[:] = noise
        for k, q in enumerate(parameters.n_factors):
            # Factors beyond the number of columns are empty.
            used = min(q, d)
            lengths = np.sqrt(spectra.used_values[k, :used] - 1.0)
            loadings = parameters.component_loadings(k)
            loadings[:] = 0.0
            loadings[:used] = lengths[:, None] * spectra.vectors[k, :used] * np.sqrt(noise[k])


def _parameters(
    moments: GroupMoments,
    loadings: Sequence[FloatArray],
    uniquenesses: FloatArray,
    like: Parameters | None = None,
) -> Parameters:
    """Put a mixture together; tails and background are those of another one."""
    degrees = np.full(len(loadings), np.inf) if like is None else like.degrees_of_freedom
    parts = zip(moments.shares, moments.means, loadings, uniquenesses, degrees, strict=True)
    return Parameters.from_components([Component(*each) for each in parts], None if like is None else like.background)
