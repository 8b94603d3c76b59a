"""Fits and predictions on the machines of a dask cluster, for tables of any size.

Each pass over the rows is a set of tasks without state, one for each block, and so is each look for splits of
components. What is lost with a worker is computed again elsewhere, and nothing waits for a worker that has gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

import numpy as np

try:
    import dask
    import dask.array
    import distributed
    from dask.delayed import Delayed, delayed
except ImportError as error:
    raise ModuleNotFoundError("amofa.dask needs dask and distributed: pip install 'amofa[dask]'") from error

from amofa._data.block_source import BlockSource, OfBlock, groups, merged
from amofa._data.dataframes import column_labels
from amofa._search.options import FitOptions
from amofa._version import __version__
from amofa.fitting import fit_blocks
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import Executor, single_blas_thread, use_threads

__all__ = ["fit", "predict", "predict_proba", "score_samples", "transform"]

Item = TypeVar("Item")
Result = TypeVar("Result")
# How often a block that fails is computed again, as dask's users expect of a task that reads files.
_RETRIES = 3


def fit(X: Any, *, client: Any = None, sample_weight: Any = None, **options: Any) -> MixtureOfFactorAnalyzers:
    """Fit a mixture to a dask array or frame; the result is an ordinary model.

    Workers compute sums over blocks, by one task for each block and pass, and splits of components, by one task for
    each, on their rows in a sample that `fit` holds and sends with the task; a task has one thread. The model is the
    same, bit for bit, whatever the number of workers, and that of `amofa.fit` for the same blocks; a worker with
    another kind of processor may change last bits.

    Parameters
    ----------
    X : dask array (n, d), or dask frame
        NaN where a cell is missing. A chunk, or partition, with all columns is a block: 64 MB are a good size. A fit
        passes over all blocks dozens to hundreds of times, and computes each anew unless it is persisted:
        ``X.persist()``, if the memory of the workers is enough.
    client : distributed.Client, optional
        By default the one that was made last.
    sample_weight : dask array or series, or array (n,), optional
        How often each row counts.
    **options
        Those of `amofa.fit`, but for labels as `init` and ``search="paper"``. `n_threads` is for this process.

    Returns
    -------
    MixtureOfFactorAnalyzers
        With the columns of a frame as `feature_names`.

    Raises
    ------
    TypeError, ValueError
        As `amofa.fit`; messages name the block. If X is not a collection of dask, or there is no client.
    RuntimeError
        If a block cannot be computed, after three further attempts, or if workers have other versions of amofa or
        NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa.dask
    >>> import dask.array
    >>> from dask.distributed import Client
    >>> client = Client(processes=False, n_workers=1, dashboard_address=":0")
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (600, 2)), rng.normal(8, 1, (300, 2))])
    >>> model = amofa.dask.fit(dask.array.from_array(X, chunks=(300, 2)))
    >>> model.weights.round(2)
    array([0.67, 0.33])
    >>> client.close()
    """
    if unknown := set(options) - {field.name for field in fields(FitOptions)}:
        raise TypeError(f"fit has no option {sorted(unknown)[0]!r}")
    return fit_blocks(_DaskBlocks(X, sample_weight, _client(client)), FitOptions(**options))


class _DaskBlocks(BlockSource):
    """The blocks of a dask collection, each of which is evaluated where it is."""

    def __init__(self, X: Any, weights: Any, client: Any) -> None:
        _check_versions(client)
        # Rows that are persisted stay on the workers as long as something refers to them.
        self._client, self._collections, self._workers = client, (X, weights), _Workers(client)
        if _is_frame(X):
            self._labels = tuple(X.columns)
            self._n_features = len(self._labels)
            self._names = self._labels if all(isinstance(name, str) for name in self._labels) else None
            self._blocks = X.to_delayed()
        elif isinstance(X, dask.array.Array):
            if X.ndim != 2:
                raise ValueError(f"X must have two dimensions (rows, columns), got {X.ndim}")
            X = _with_whole_rows(X)
            self._n_features, self._names, self._labels = X.shape[1], None, ()
            self._blocks = X.to_delayed().ravel().tolist()
        else:
            raise TypeError(f"X must be a dask array or frame, got {type(X).__name__}; amofa.fit takes arrays")
        self._weights: list[Any] = [None] * len(self._blocks)
        if weights is not None:
            self._weights = _blocks_of_weights(weights, X)
        if len(self._weights) != len(self._blocks):
            raise ValueError(
                f"sample_weight has {len(self._weights)} blocks, but X has {len(self._blocks)}; give both the same"
            )

    @property
    def n_features(self) -> int:
        return self._n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return self._names

    @property
    def executor(self) -> Executor:
        return self._workers

    def map(self, function: OfBlock[Result]) -> list[Result]:
        return [_accepted(each) for each in self._results([self._submit(function)])]

    def total(self, function: OfBlock[Result], merge: Callable[[Result, Result], Result]) -> Result:
        # All are referred to until the last one is there: one that is released may be lost before the task that needs
        # it has arrived at the scheduler.
        levels = [self._submit(function)]
        while len(levels[-1]) > 1:
            levels.append([self._merged(merge, group) for group in groups(levels[-1])])
        total: Result = _accepted(self._results(levels)[0])
        return total

    def _merged(self, merge: Callable[[Result, Result], Result], group: Sequence[Any]) -> Any:
        """Start a task that merges some results."""
        if len(group) == 1:
            return group[0]
        return self._client.submit(_merged, merge, group, pure=False, retries=_RETRIES)

    def _submit(self, function: OfBlock[Result]) -> list[Any]:
        """Start a task for each block."""
        token = uuid.uuid4().hex
        # A node of the graph, not scattered data, which would be lost with a worker.
        node = delayed(function, name=f"amofa-function-{token}", traverse=False)
        evaluate = delayed(_evaluate, pure=False)
        tasks = [
            evaluate(node, self._labels, number, block, weights, dask_key_name=f"amofa-block-{token}-{number}")
            for number, (block, weights) in enumerate(zip(self._blocks, self._weights, strict=True))
        ]
        futures: list[Any] = self._client.compute(tasks, retries=_RETRIES)
        return futures

    def _results(self, levels: list[list[Any]]) -> list[Any]:
        """Wait for the last of some levels, of which the first has a result for each block; name one that failed."""
        try:
            found: list[Any] = self._client.gather(levels[-1])
            return found
        except Exception:
            failed = next((i for i, future in enumerate(levels[0]) if future.status == "error"), None)
            if failed is None:
                raise
            error = levels[0][failed].exception()
            raise RuntimeError(
                f"block {failed} of X could not be computed on the workers, in {1 + _RETRIES} attempts: {error!r}"
            ) from error
        finally:
            for level in levels:
                _release(level)


class _Workers:
    """The workers of a cluster, each of which takes some of the items, as an `Executor`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def in_order(self, make_worker: Callable[[], Callable[[Item], Result]], items: Sequence[Item]) -> Iterator[Result]:
        # Items go with their tasks, so that any worker can take one, and another again if that worker is lost.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
            futures = [self._client.submit(_work, make_worker, item, pure=False, retries=_RETRIES) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            _release(futures)


def _release(futures: list[Any]) -> None:
    """Tell the scheduler that results are not needed any more; after an interrupt, tasks may still be running."""
    for future in futures:
        future.release()


# ---- tasks -----------------------------------------------------------------------------------------------------------


class _Refused(NamedTuple):
    """Rows or weights that cannot be used, which is no reason to try again."""

    error: TypeError | ValueError  # which names the block


def _evaluate(
    function: OfBlock[Result], labels: tuple[Any, ...], number: int, rows: Any, weights: Any
) -> Result | _Refused:
    with use_threads(1), single_blas_thread():
        try:
            if labels and column_labels(rows) != labels:
                raise ValueError(f"block {number} of X has other columns than the frame, or in another order")
            return function(number, rows, weights)
        except (TypeError, ValueError) as error:
            return _Refused(error)


def _merged(merge: Callable[[Result, Result], Result], results: list[Result]) -> Result:
    """Return results as one, the first one that is refused if there is one."""
    return next((each for each in results if isinstance(each, _Refused)), None) or merged(results, merge)


def _accepted(result: Any) -> Any:
    """Return a result, or raise the error of rows that are refused."""
    if isinstance(result, _Refused):
        raise result.error
    return result


def _work(make_worker: Callable[[], Callable[[Item], Result]], item: Item) -> Result:
    with use_threads(1), single_blas_thread(), np.errstate(under="ignore"):
        return make_worker()(item)


# ---- clients and collections -----------------------------------------------------------------------------------------


def _client(client: Any) -> Any:
    if client is not None:
        return client
    try:
        return distributed.get_client()
    except ValueError:
        raise ValueError("there is no dask client; make one first: dask.distributed.Client()") from None


def _versions() -> dict[str, str]:
    return {"amofa": __version__, "numpy": np.__version__}


def _check_versions(client: Any) -> None:
    """Check that all workers have the versions of this process, whose sums are then the same."""
    own = _versions()
    for address, found in client.run(_versions, on_error="return").items():
        if isinstance(found, Exception):
            raise RuntimeError(f"worker {address} cannot load amofa {__version__} ({found!r}); install it there")
        for name, version in own.items():
            if found[name] != version:
                raise RuntimeError(
                    f"worker {address} has {name} {found[name]}, but this process {version}; install the same there"
                )


def _is_frame(X: Any) -> bool:
    # A delayed object has all attributes.
    return hasattr(X, "to_delayed") and hasattr(X, "columns") and not isinstance(X, Delayed)


def _with_whole_rows(X: Any) -> Any:
    """Return a dask array in chunks with all columns, whose number is known."""
    if np.isnan(X.shape[1]):
        X = X.compute_chunk_sizes()
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _blocks_of_weights(weights: Any, X: Any) -> list[Any]:
    """Return the weights of each block; dask's own must be divided like X where lengths of blocks are not known."""
    if not hasattr(weights, "to_delayed"):
        values = np.asarray(weights)
        lengths = X.map_partitions(len).compute().tolist() if _is_frame(X) else _lengths(X.compute_chunk_sizes())
        if values.shape != (sum(lengths),):
            raise ValueError(f"sample_weight has shape {values.shape}, but X has {sum(lengths)} rows")
        return np.split(values, np.cumsum(lengths)[:-1])
    is_divisible = hasattr(weights, "rechunk") and not _is_frame(X)
    if is_divisible and not np.isnan([*_lengths(X), *weights.shape]).any():
        if weights.shape != X.shape[:1]:
            raise ValueError(f"sample_weight has shape {weights.shape}, but X has {X.shape[0]} rows")
        weights = weights.rechunk((_lengths(X),))
    blocks: list[Any] = np.ravel(weights.to_delayed()).tolist()
    return blocks


def _lengths(X: Any) -> tuple[float, ...]:
    lengths: tuple[float, ...] = X.chunks[0]
    return lengths


# ---- predictions -----------------------------------------------------------------------------------------------------


def predict(model: MixtureOfFactorAnalyzers, X: Any, *, clusters: int | str | None = None) -> Any:
    """Return the most probable component, or cluster, of each row of a dask array or frame, lazily.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : dask array (n, d), or dask frame
    clusters : int or str, optional
        As in ``model.predict``.

    Returns
    -------
    dask array (n,), or series for a frame

    Examples
    --------
    >>> import amofa.dask
    >>> import dask.array
    >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
    >>> amofa.dask.predict(model, dask.array.from_array([[1.0], [3.0]], chunks=(1, 1))).compute()
    array([0, 1])
    """
    return _mapped(model, X, "predict", clusters=None if clusters is None else model._chosen_clusters(clusters))


def predict_proba(model: MixtureOfFactorAnalyzers, X: Any, *, clusters: int | str | None = None) -> Any:
    """Return the probability of each component, or cluster, for each row of a dask array or frame, lazily.

    Parameters
    ----------
    model, X, clusters
        As in `predict`.

    Returns
    -------
    dask array (n, K), or frame for a frame
    """
    return _mapped(model, X, "predict_proba", clusters=None if clusters is None else model._chosen_clusters(clusters))


def score_samples(model: MixtureOfFactorAnalyzers, X: Any) -> Any:
    """Return the log density of each row of a dask array or frame, in nats, lazily.

    Parameters
    ----------
    model, X
        As in `predict`.

    Returns
    -------
    dask array (n,), or series for a frame
    """
    return _mapped(model, X, "score_samples")


def transform(model: MixtureOfFactorAnalyzers, X: Any) -> Any:
    """Return what ``model.transform`` makes of each row of a dask array or frame, lazily.

    Parameters
    ----------
    model, X
        As in `predict`.

    Returns
    -------
    dask array (n, q), or frame for a frame
    """
    return _mapped(model, X, "transform")


def _mapped(model: MixtureOfFactorAnalyzers, X: Any, method: str, **options: Any) -> Any:
    """Return the results of a method of the model for each block, lazily."""
    model = model._with_arrays()
    if _is_frame(X):
        model = model._from_fit(model._parameters, model._report, model._feature_names).set_output(transform="pandas")
        row = X._meta_nonempty.iloc[:1] * 0.0
        meta = _call(row, model, method, None, options).iloc[:0]
        return X.map_partitions(_call, model, method, meta, options, meta=meta)
    if not isinstance(X, dask.array.Array):
        raise TypeError(f"X must be a dask array or frame, got {type(X).__name__}; call model.{method} with arrays")
    X = _with_whole_rows(X)
    meta = _call(np.zeros((1, X.shape[1])), model, method, None, options)[:0]
    shape: dict[str, Any] = {"drop_axis": 1} if meta.ndim == 1 else {"chunks": (X.chunks[0], (meta.shape[1],))}
    return X.map_blocks(_call, model, method, meta, options, dtype=meta.dtype, meta=meta, **shape)


def _call(rows: Any, model: MixtureOfFactorAnalyzers, method: str, empty: Any, options: dict[str, Any]) -> Any:
    """Return the results of a method for some rows, of which there may be none."""
    if len(rows) == 0:
        return empty
    with use_threads(1), single_blas_thread():
        return getattr(model, method)(rows, **options)
