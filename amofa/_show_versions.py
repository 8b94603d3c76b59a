"""What a report of a problem should say of the machine and of the installed packages."""

from __future__ import annotations

import sys
from pathlib import Path

from threadpoolctl import threadpool_info

from amofa._version import __version__
from amofa.threads import available_cores

_PACKAGES = (
    *("numpy", "scipy", "threadpoolctl"),
    *("scikit-learn", "matplotlib", "rich", "pandas", "polars", "pyarrow", "joblib"),
    *("cython", "meson-python", "pip"),
)


def show_versions() -> None:
    """Print the versions of amofa, Python and other packages, with the machine and its libraries of threads.

    Please add it to a report of a problem. It names no users and no folders.

    Examples
    --------
    >>> import amofa
    >>> amofa.show_versions()  # doctest: +ELLIPSIS
    amofa ...
    python ...
    """
    # Not at the top: both take a tenth of the time of `import amofa`.
    import platform
    from importlib.metadata import distributions

    installed = {found.name.lower(): found.version for found in distributions()}
    rows = {
        "amofa": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()}{_gil()})",
        "platform": platform.platform(),
        "processor": f"{platform.machine()}, {available_cores()} cores for this process",
        **{name: installed.get(name, "not installed") for name in _PACKAGES},
    }
    for i, library in enumerate(threadpool_info()):
        name = f"{library['internal_api']} {library['version'] or ''}".rstrip()
        file = Path(library["filepath"]).name
        rows[f"threads {i + 1}"] = f"{name}: {library['num_threads']}, {file}"
    width = max(map(len, rows))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows.items()))


def _gil() -> str:
    is_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    return "" if is_enabled() else ", without GIL"
