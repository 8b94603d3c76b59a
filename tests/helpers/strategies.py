"""Hypothesis strategies: tables that are hard on a fit, row weights, and options of `amofa.fit`."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from fits import NOISES, SEARCHES
from hypothesis import strategies as st

KINDS_OF_COLUMNS = (
    "normal", "groups", "rounded", "binary", "few values", "constant", "nearly constant", "heavy tails", "outlier",
    "one other", "powers", "copy", "sum", "nearly a copy", "steps",
)  # fmt: skip
SHAPES = ("small", "small", "small", "small", "wide", "long")
DTYPES = (
    "float64", "float32", "float16", "longdouble", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool",
)  # fmt: skip
LAYOUTS = ("C", "F", "strided", "reversed", "read-only", "memory map", "byte-swapped")


@dataclass(frozen=True)
class Recipe:
    """What a table is made of; short, so that what hypothesis reports can be made again by `make`."""

    seed: int
    n: int
    kinds: tuple[str, ...]  # of the columns
    exponents: tuple[float, ...] = ()  # units of the columns, powers of ten
    offsets: tuple[float, ...] = ()  # of the columns, in standard deviations
    outlier: int = 3  # an outlier is ten to the power of this
    repeats: str = "none"
    dtype: str = "float64"

    def make(self) -> np.ndarray:
        """Make the table (n, d), with all values finite in its dtype."""
        rng = np.random.default_rng(self.seed)
        labels = rng.integers(0, 3, self.n)
        columns: list[np.ndarray] = []
        for kind in self.kinds:
            columns.append(_column(rng, kind, labels, columns, self.outlier))
        x = np.stack(columns, axis=1)
        if self.repeats == "some":
            x = x[rng.integers(0, self.n, self.n)]
        elif self.repeats == "alternating":
            x = x[np.arange(self.n) % 2]
        elif self.repeats == "all but one":
            x = x[np.minimum(np.arange(self.n), 1)]
        if self.dtype == "float64":
            deviation = x.std(axis=0)
            shifts = np.array(self.offsets or (0.0,) * x.shape[1]) * np.where(deviation > 0, deviation, 1.0)
            return (x + shifts) * 10.0 ** np.array(self.exponents or (0.0,) * x.shape[1])
        return _as_dtype(x, self.dtype)


def _column(rng, kind, labels, columns, outlier):
    n = len(labels)
    z = rng.standard_normal(n)
    earlier = columns[-1] if columns else z
    return {
        "normal": lambda: z,
        "groups": lambda: z + 8.0 * labels,
        "rounded": lambda: np.round(2 * z),
        "binary": lambda: (z > 0).astype(float),
        "few values": lambda: rng.choice([0.0, 1.0, 5.0], n),
        "constant": lambda: np.full(n, 3.7),
        "nearly constant": lambda: 3.7 + 1e-13 * z,
        "heavy tails": lambda: rng.standard_cauchy(n),
        "outlier": lambda: np.where(np.arange(n) == n // 2, 10.0**outlier, z),
        "one other": lambda: np.where(np.arange(n) == n // 2, 1.0, 0.0),
        "powers": lambda: 2.0 ** (np.arange(n) % 500),
        "copy": lambda: earlier.copy(),
        "sum": lambda: sum(columns, np.zeros(n)) - 2.0 * earlier,
        "nearly a copy": lambda: earlier * (1 + 1e-9 * z),
        "steps": lambda: np.arange(n) // 3 + 0.0,
    }[kind]()


def _as_dtype(x, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return x > np.median(x, axis=0)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        # The largest int64 is no float64.
        return np.clip(np.round(3 * x), max(low, -(2.0**62)), min(high, 2.0**62)).astype(dtype)
    most = float(min(np.finfo(dtype).max, np.finfo(np.float64).max))
    return np.clip(x, -most, most).astype(dtype)


@st.composite
def recipes(draw, *, shapes=SHAPES, kinds=KINDS_OF_COLUMNS, dtypes=("float64",) * 6 + DTYPES, repeats=True, units=True):
    """Recipes of tables: of few rows and columns, wide or long; columns of every kind beside each other."""
    shape = draw(st.sampled_from(shapes))
    n, d = {
        "small": lambda: (draw(st.integers(1, 40)), draw(st.integers(1, 8))),
        "wide": lambda: (draw(st.integers(1, 6)), draw(st.sampled_from([10, 30, 40]))),
        "long": lambda: (300, draw(st.integers(1, 3))),
    }[shape]()
    pool = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
    dtype = draw(st.sampled_from(dtypes))
    few = st.lists(st.floats(-140, 140), min_size=1, max_size=2)
    offsets = st.lists(st.sampled_from([0.0, 1.0, -1e3, 1e5, 1e8]), min_size=1, max_size=2)
    own_units, own_offsets = units and draw(st.booleans()), units and draw(st.booleans())
    return Recipe(
        seed=draw(st.integers(0, 2**32 - 1)),
        n=n,
        kinds=_cycled(pool, d),
        exponents=_cycled(draw(few), d) if own_units and dtype == "float64" else (),
        offsets=_cycled(draw(offsets), d) if own_offsets and dtype == "float64" else (),
        outlier=draw(st.integers(3, 150)) if "outlier" in pool else 3,
        repeats=draw(st.sampled_from(["none", "none", "some", "alternating", "all but one"])) if repeats else "none",
        dtype=dtype,
    )


def _cycled(values, d):
    return tuple(values[j % len(values)] for j in range(d))


@st.composite
def weights(draw, n):
    """Draw row weights (n,), or None: integers, of any size, some of them 0, or all tiny or huge."""
    kind = draw(st.sampled_from(["none", "none", "none", "whole", "any", "zeros", "tiny", "huge", "mixed"]))
    if n > 100 and kind == "huge":
        # Every row is worth a component then, and hundreds of components take their time.
        kind = "any"
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = {
        "none": lambda: None,
        "whole": lambda: rng.integers(1, 5, n).astype(float),
        "any": lambda: rng.uniform(0.1, 3.0, n),
        "zeros": lambda: np.where(rng.random(n) < 0.5, 0.0, rng.uniform(0.1, 3.0, n)),
        "tiny": lambda: rng.uniform(0.1, 3.0, n) * 10.0 ** -draw(st.integers(3, 95)),
        "huge": lambda: rng.uniform(0.1, 3.0, n) * 10.0 ** draw(st.integers(3, 95)),
        "mixed": lambda: 10.0 ** rng.uniform(-draw(st.integers(1, 300)), draw(st.integers(1, 20)), n),
    }[kind]()
    if made is not None and kind in ("zeros", "mixed"):
        made[0] = 1.0
    return made


@st.composite
def options(draw, n, d, *, searches=SEARCHES, forced=True):
    """Options of `amofa.fit` for n rows of d columns, as a caller may combine them."""
    search = draw(st.sampled_from(searches))
    made: dict[str, Any] = {"search": search}
    if search == "thorough":
        _put(draw, made, "noise", ["auto", *NOISES])
        _put(draw, made, "criterion", ["evidence", "mml", "bic", "aic", "icl"])
        _put(draw, made, "prior_rows", [0.0, 0.0, 1e-6, 50.0, 1e9])
    else:
        _put(draw, made, "criterion", ["mml", "bic", "aic", "icl"])
    if forced:
        kept = draw(st.sampled_from(["nothing", "nothing", "components", "factors", "both", "each", "bounds"]))
        if kept in ("components", "both"):
            made["n_components"] = draw(st.integers(1, min(n + 2, 12)))
        if kept in ("factors", "both"):
            made["n_factors"] = draw(st.integers(0, min(d, 5)))
        if kept == "each":
            made["n_factors"] = tuple(draw(st.lists(st.integers(0, min(d, 4)), min_size=1, max_size=4)))
        if kept == "bounds":
            made["max_components"] = draw(st.integers(1, 4))
            made["max_factors"] = draw(st.integers(0, 3))
        _put(draw, made, "max_iter", [1, 2, 3])
        _put(draw, made, "tol", [1e-300, 1e-3, 1e300])
        _put(draw, made, "noise_floor", [1e-12, 0.1, 3.0, 1e-300])
        if draw(st.sampled_from([False] * 5 + [True])):
            made["init"] = np.arange(n) * draw(st.integers(0, 7)) % draw(st.integers(1, 5)) - draw(st.integers(0, 1))
    return made


def _put(draw, made, name, values):
    """Leave an option out, mostly."""
    if draw(st.sampled_from([False, False, True])):
        made[name] = draw(st.sampled_from(values))


@dataclass(frozen=True)
class Case:
    """A table, weights and options of a fit."""

    recipe: Recipe
    weights: np.ndarray | None = None
    options: dict[str, Any] = field(default_factory=dict)


@st.composite
def cases(draw, *, forced=True, **kinds):
    """Everything together."""
    recipe = draw(recipes(**kinds))
    return Case(recipe, draw(weights(recipe.n)), draw(options(recipe.n, len(recipe.kinds), forced=forced)))


@st.composite
def plain_cases(draw):
    """Tables and options of which no decision hangs on rounding: what changes that alone must not change the model."""
    kinds = ("normal", "groups", "heavy tails", "rounded")
    shapes = ("small", "small", "wide", "long")
    recipe = draw(recipes(shapes=shapes, kinds=kinds, dtypes=("float64",), repeats=False, units=False))
    # One row has no units.
    recipe = replace(recipe, n=max(3, recipe.n))
    return Case(recipe, None, draw(options(recipe.n, len(recipe.kinds), forced=False)))


def laid_out(table, layout, folder=None):
    """Return the same values in another layout; a memory map needs a folder."""
    if layout == "C":
        return np.ascontiguousarray(table)
    if layout == "F":
        return np.asfortranarray(table)
    if layout == "strided":
        wide = np.zeros((2 * len(table), 3 * table.shape[1]), dtype=table.dtype)
        wide[::2, 1::3] = table
        return wide[::2, 1::3]
    if layout == "reversed":
        return table[::-1, ::-1].copy()[::-1, ::-1]
    if layout == "byte-swapped":
        return table.astype(table.dtype.newbyteorder())
    copy = np.ascontiguousarray(table).copy()
    if layout == "memory map":
        np.save(folder / "table.npy", copy)
        return np.load(folder / "table.npy", mmap_mode="r")
    copy.flags.writeable = False
    return copy
