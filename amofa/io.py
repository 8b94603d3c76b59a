"""Save and load models: .npz archives of plain arrays with a format name and version, nothing executable."""

from __future__ import annotations

import os
from typing import Any

from amofa._data.npz import read_arrays
from amofa._model.files import STREAM_FORMAT, model_from_arrays
from amofa.mixture import MixtureOfFactorAnalyzers


def save(model: MixtureOfFactorAnalyzers, path: str | os.PathLike[str]) -> None:
    """Write a model to a file.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    path : str or PathLike
        Used as given: no suffix is added. An existing file is replaced when the new one is complete on disk.

    Raises
    ------
    TypeError
        If `model` is not a mixture or `path` not a path.
    OSError
        If the file cannot be written; an existing file is then intact.

    Notes
    -----
    The file is an .npz archive that ``numpy.load(path, allow_pickle=False)`` can also read: all arrays are plain. A
    process that is killed while writing may leave a file ``.amofa-*.tmp`` in the folder, which can be deleted.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.npz")
    ...     save(model, path)
    ...     load(path)
    MixtureOfFactorAnalyzers(n_components=1, n_features=1, n_factors=[1])
    """
    if not isinstance(model, MixtureOfFactorAnalyzers):
        raise TypeError(f"model must be a MixtureOfFactorAnalyzers, got {type(model).__name__}")
    model.save(path)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model, or a stream, from a file that `save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : str or PathLike
        A checkpoint of `fit` can be loaded, too; the model is the best that the fit had found.

    Returns
    -------
    MixtureOfFactorAnalyzers or Stream
        Equal to the saved one to the last bit, including the report of the fit. A stream goes on in the same way.

    Raises
    ------
    OSError
        If the file cannot be opened (FileNotFoundError if there is none), or is a pipe or a device.
    ValueError
        If it is not a model file, is damaged, or has a format that this version does not know.

    Notes
    -----
    Loading takes at most a few times the size of the file in memory, whatever the file claims to contain.

    Examples
    --------
    >>> import tempfile
    >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.npz")
    ...     load(f"{folder}/model.npz").loadings
    [array([[0.6]])]
    """
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise ValueError(f"{path} is not a model file of amofa, or is damaged ({error})") from error
    is_stream = str(arrays.get("format")) == STREAM_FORMAT
    try:
        if is_stream:
            # Imported late, since few programs need it.
            from amofa.streaming import Stream

            return Stream._from_arrays(arrays)
        return MixtureOfFactorAnalyzers._from_fit(*model_from_arrays(arrays))
    except ValueError as error:
        what = "stream" if is_stream else "model"
        raise ValueError(f"{path} does not hold a {what} that amofa can read: {error}") from error


def load_model(path: str | os.PathLike[str]) -> MixtureOfFactorAnalyzers:
    """Read a model like `load`; of a stream, the mixture of its rows so far.

    Examples
    --------
    >>> import tempfile
    >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.npz")
    ...     load_model(f"{folder}/model.npz").n_components
    1
    """
    found = load(path)
    return found if isinstance(found, MixtureOfFactorAnalyzers) else found.model
