"""`Stream`: a mixture of rows that keep coming."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import check_incomplete_table, check_positive, check_weights, check_whole_number
from amofa._data.dataframes import check_same_names, column_labels, column_names
from amofa._data.npz import write_arrays
from amofa._model.finalize import with_canonical_factors
from amofa._model.gaussian_mixture import is_gaussian_mixture
from amofa._search.options import FitOptions
from amofa._stream.files import stream_arrays, stream_from_arrays
from amofa._stream.mixture import Frame, RunningMixture
from amofa._stream.state import Block, Settings, StreamState, shown, with_rows
from amofa._typing import FloatArray
from amofa.criterion import n_parameters
from amofa.history import FitReport, StreamStep
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread, use_threads

__all__ = ["Stream"]

# With less memory, a mixture would follow chance.
_LEAST_MEMORY = 100
# There are second moments of all pairs of columns: up to this number of columns, 32 MB for each component.
_MOST_COLUMNS = 2000
# A large table is converted in pieces of this number of rows.
_PIECE = 1 << 16


class Stream:
    """A mixture of factor analysers of rows that come in blocks, none of which is kept.

    The first rows, the warm-up, are fitted as by `amofa.fit`. From then on, each row is used once, for the moments of
    the components (stepwise EM [1]_), and each component is at the maximum for its moments. From time to time, a search
    on a sample of the rows looks for another number of components or factors. What it finds runs beside the present
    mixture, and replaces it if further rows are more likely under it. docs/streams.md shows how.

    Parameters
    ----------
    n_components, n_factors : int, optional
        Number of components, and of factors of every component; found if not given.
    memory : float, optional
        Number of rows, or their total weight, after which older rows count by a factor of e less. By default all rows
        count the same, for streams whose distribution stays the same.
    warm_up : int, optional
        Number of rows that are fitted first. By default 1000, or 20 for each column if that is more, but not more than
        `memory`. Until then, `model` is fitted to the rows so far.
    init : MixtureOfFactorAnalyzers or scikit-learn's GaussianMixture, optional
        A model to go on from, in place of the warm-up.
    n_samples : float, optional
        Number of rows that `init` counts as; by default the number that it was fitted to.
    max_components, max_factors, criterion, noise, noise_floor, prior_scale, prior_rows, tails, degrees_of_freedom
        As in `amofa.fit`, for the warm-up and for each look at the structure. `noise` is "auto", "component", "shared"
        or "isotropic". A background is not possible: where it is depends on all rows; ``tails="t"`` makes far rows
        count less.
    tol, max_iter, n_threads
        As in `amofa.fit`.

    Raises
    ------
    TypeError, ValueError
        As `amofa.fit`.

    Notes
    -----
    The model depends on the rows and their order, not on how they are cut into blocks: rows wait until there are
    enough for a step, which takes an eighth of the rows so far, from 32 up to 4096. `model` counts rows that wait.

    Memory is O(K d^2) and a sample of at most 20000 rows.

    References
    ----------
    .. [1] O. Cappe, E. Moulines, "On-line Expectation-Maximization Algorithm for Latent Data Models", Journal of the
       Royal Statistical Society B 71(3), 2009, 593-613.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> stream = amofa.Stream()
    >>> for _ in range(50):
    ...     labels = rng.random(100) < 0.3
    ...     stream = stream.update(rng.normal(np.where(labels[:, None], 8.0, 0.0), 1.0, (100, 2)))
    >>> stream
    Stream(n_components=2, n_features=2, n_samples=5000)
    >>> stream.model.weights.round(1)
    array([0.7, 0.3])
    """

    # What frames call their columns where these are no names.
    _labels: tuple[Any, ...] = ()

    def __init__(
        self,
        n_components: int | None = None,
        n_factors: int | None = None,
        *,
        memory: float | None = None,
        warm_up: int | None = None,
        init: MixtureOfFactorAnalyzers | None = None,
        n_samples: float | None = None,
        max_components: int | None = None,
        max_factors: int | None = None,
        criterion: str | None = None,
        noise: str | None = None,
        noise_floor: float | ArrayLike | None = None,
        prior_scale: ArrayLike | None = None,
        prior_rows: float | None = None,
        tails: str = "normal",
        degrees_of_freedom: float | None = None,
        tol: float = 1e-5,
        max_iter: int = 100,
        n_threads: int | None = None,
    ) -> None:
        if isinstance(n_factors, Sequence | np.ndarray):
            raise TypeError("n_factors of a stream must be one number, as its components come and go")
        if is_gaussian_mixture(init):
            init = MixtureOfFactorAnalyzers.from_sklearn(init)
        if not (init is None or isinstance(init, MixtureOfFactorAnalyzers)):
            raise TypeError(f"init of a stream must be a mixture, got {type(init).__name__}")
        if n_samples is not None:
            n_samples = check_positive("n_samples", n_samples)
            if init is None:
                raise ValueError("n_samples says how many rows init counts as; pass init, or leave n_samples out")
        if memory is not None:
            memory = check_positive("memory", memory)
            if memory < _LEAST_MEMORY:
                raise ValueError(f"memory must be at least {_LEAST_MEMORY} rows, got {memory:g}")
        if warm_up is not None:
            warm_up = check_whole_number("warm_up", warm_up, at_least=1)
        # Numbers that depend on columns are checked again when these are known.
        options = FitOptions(
            n_components=n_components,
            n_factors=n_factors,
            max_components=max_components,
            max_factors=max_factors,
            criterion=criterion,
            noise=noise,
            noise_floor=noise_floor,
            prior_scale=prior_scale,
            prior_rows=prior_rows,
            tails=tails,
            degrees_of_freedom=degrees_of_freedom,
            tol=tol,
            max_iter=max_iter,
            n_threads=n_threads,
        )
        if options.may_need_joint_m_step:
            raise ValueError(
                f"noise={noise!r} is for whole tables; a stream has noise='auto', 'component', 'shared' or 'isotropic'"
            )
        settings = Settings(options, memory, warm_up)
        if init is None:
            options.checked(_assumed_columns(options))
            self._adopt(None, settings)
            return
        n_samples = init.n_samples if n_samples is None else n_samples
        if n_samples is None:
            raise ValueError("init was not fitted to rows; pass n_samples, the number of rows that it counts as")
        _check_number_of_columns(init.n_features, "init")
        settings = settings.of_columns(init.n_features)
        self._adopt(StreamState.of_model(init, n_samples, settings), settings)

    def _adopt(self, state: StreamState | None, settings: Settings) -> None:
        self._state, self._settings = state, settings
        self._shown: tuple[StreamState, MixtureOfFactorAnalyzers] | None = None

    # -- rows --

    def update(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from a block of further rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            As in `amofa.fit`, with the columns of the blocks before it. There may be any number of rows, 0 included;
            NaN marks a missing cell.
        sample_weight : (n,) array-like, optional
            How often each row counts. They may all be 0. Searches for the structure scale them to a mean of 1 at most:
            weights do not make rows show more groups.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            As `amofa.fit`. The stream is then as it was before, as it is after an interrupt.

        Warns
        -----
        AmofaWarning
            At the end of the warm-up, as `amofa.fit`.

        Examples
        --------
        >>> import amofa
        >>> stream = amofa.Stream().update([[0.0, 1.0], [1.0, 0.5]])
        >>> stream.update([[2.0, 0.0]], sample_weight=[3]).n_samples
        5.0
        """
        names, labels, state, settings = column_names(X), column_labels(X), self._state, self._settings
        shape = getattr(X, "shape", None)
        if shape is not None and len(shape) == 2 and shape[0] == 0:
            if state is not None:
                _check_columns(shape[1], names, state)
            return self
        table, _ = check_incomplete_table(X)
        weights = None if sample_weight is None else _checked_weights(sample_weight, len(table))
        if state is None:
            _check_number_of_columns(table.shape[1], "X")
            settings = settings.of_columns(table.shape[1])
            state = StreamState.of_nothing(table.shape[1], settings.memory, names)
        else:
            _check_columns(table.shape[1], names, state)
            if names is None and labels and self._labels and labels != self._labels:
                raise ValueError("X has other columns than the rows before, or in another order")
        # Squares of tiny numbers may become 0.
        with single_blas_thread(), use_threads(settings.options.n_threads), np.errstate(under="ignore"):
            for start in range(0, len(table), _PIECE):
                piece = slice(start, start + _PIECE)
                state = with_rows(state, _counted_rows(table[piece], weights, piece), settings)
        self._state, self._settings, self._labels = state, settings, labels or self._labels
        return self

    # -- what it has learnt --

    @property
    def model(self) -> MixtureOfFactorAnalyzers:
        """The mixture of all rows so far, which does not change with further rows.

        In the warm-up it is fitted to the rows so far, whenever it is asked for, with the heaviest component first.
        From then on components keep their order, and new ones come last. Log-likelihood and cost are NaN, as the rows
        are not kept.

        Raises
        ------
        ValueError
            If there were no rows yet.
        """
        if self._state is None:
            raise ValueError("the stream has no rows yet; call update with some first")
        if self._shown is None or self._shown[0] is not self._state:
            state, settings = self._state, self._settings
            with single_blas_thread(), use_threads(settings.options.n_threads), np.errstate(under="ignore"):
                model = _model_of(*shown(state, settings), settings.options, self.n_samples, state.names)
            self._shown = state, model
        return self._shown[1]

    @property
    def n_samples(self) -> float:
        """Number of rows so far, or the sum of their weights, with those that a given model counts as."""
        state = self._state
        if state is None:
            return 0.0
        return state.total_weight + sum(block.total_weight for block in state.waiting)

    @property
    def n_features(self) -> int | None:
        """Number of columns; None before the first rows."""
        return None if self._state is None else self._state.n_features

    @property
    def is_warm(self) -> bool:
        """Whether the warm-up is over."""
        return self._state is not None and self._state.current is not None

    @property
    def history(self) -> tuple[StreamStep, ...]:
        """What happened to the mixture besides what it learnt from each row; see `StreamStep`."""
        return () if self._state is None else self._state.history

    def __repr__(self) -> str:
        state = self._state
        if state is None:
            return "Stream(n_samples=0)"
        current = state.current
        number = "" if current is None else f"n_components={current.mixture.n_components}, "
        return f"Stream({number}n_features={state.n_features}, n_samples={self.n_samples:g})"

    # -- files --

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the stream to a file, from which `amofa.load` makes one that goes on in the same way, bit for bit.

        Parameters
        ----------
        path : str or PathLike
            Used as given: no suffix is added. An existing file is replaced when the new one is complete on disk.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file is then intact.

        Examples
        --------
        >>> import tempfile
        >>> import amofa
        >>> stream = amofa.Stream(n_components=1).update([[0.0], [1.0], [3.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     stream.save(f"{folder}/stream.npz")
        ...     amofa.load(f"{folder}/stream.npz")
        Stream(n_features=1, n_samples=3)
        """
        write_arrays(path, self._arrays())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return stream_arrays(self._state, self._settings)

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """Make a stream from the arrays of a file; ValueError if they are not those of a stream."""
        stream = cls.__new__(cls)
        stream._adopt(*stream_from_arrays(arrays))
        return stream

    # Parameters are views of one buffer, which a pickle would separate.
    def __getstate__(self) -> dict[str, Any]:
        return {"arrays": self._arrays(), "n_threads": self._settings.options.n_threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        found, settings = stream_from_arrays(state["arrays"])
        self._adopt(found, replace(settings, options=replace(settings.options, n_threads=state["n_threads"])))


# ---- checks ----------------------------------------------------------------------------------------------------------


def _assumed_columns(options: FitOptions) -> int:
    """Return a number of columns for which options can be right before the columns are known."""
    shapes = [np.shape(values) for values in (options.noise_floor, options.prior_scale) if values is not None]
    return next((max(1, shape[0]) for shape in shapes if shape), _MOST_COLUMNS)


def _check_number_of_columns(d: int, name: str) -> None:
    if d > _MOST_COLUMNS:
        raise ValueError(
            f"{name} has {d} columns, but a stream, which keeps second moments of all pairs, has at most "
            f"{_MOST_COLUMNS}; reduce their number first"
        )


def _check_columns(d: int, names: tuple[str, ...] | None, state: StreamState) -> None:
    check_same_names(names, state.names)
    if d != state.n_features:
        raise ValueError(f"X has {d} columns, but the stream has {state.n_features}")


def _checked_weights(sample_weight: ArrayLike, n: int) -> FloatArray:
    """Check the weights of a block, which may all be 0."""
    weights = np.asarray(sample_weight)
    if weights.shape == (n,) and weights.dtype.kind in "biuf" and not weights.any():
        return np.zeros(n)
    return check_weights(sample_weight, n)


def _counted_rows(table: NDArray[Any], weights: FloatArray | None, piece: slice) -> Block:
    """Return the rows with weight that have a cell, as a copy."""
    rows = np.array(table, dtype=np.float64, order="C")
    ones = np.ones(len(rows)) if weights is None else weights[piece]
    kept = (ones > 0) & ~np.isnan(rows).all(axis=1)
    return Block(rows, ones.copy()) if kept.all() else Block(rows[kept], ones[kept])


# ---- the model -------------------------------------------------------------------------------------------------------


def _model_of(
    frame: Frame, mixture: RunningMixture, options: FitOptions, n_samples: float, names: tuple[str, ...] | None
) -> MixtureOfFactorAnalyzers:
    """Return a mixture in the columns and units of the table, with a report of what is known without its rows."""
    found = mixture.parameters
    parameters = with_canonical_factors(frame.coordinates.restore(found, frame.floor))
    n_tails = 0 if options.degrees_of_freedom else found.n_tail_parameters
    assert options.criterion is not None
    report = FitReport(
        log_likelihood=math.nan,
        message_length=math.nan,
        criterion=options.criterion,
        n_samples=n_samples,
        converged=True,
        at_floor=parameters.uniquenesses <= frame.floor * (1 + 1e-9),
        history=(),
        n_parameters=n_parameters(parameters.n_features, found.n_factors, mixture.noise) + n_tails,
        constant=frame.coordinates.constant,
        noise=str(mixture.noise),
    )
    return MixtureOfFactorAnalyzers._from_fit(parameters, report, names)
