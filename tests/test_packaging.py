"""The installed package is complete, says who it is, and imports only what and where it should."""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.metadata
import importlib.resources
import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import amofa

ROOT = Path(__file__).parents[1]
# From the ground up. At import a module may use those of lower floors only: never its own floor, never a higher one.
# A name that is not here yet is a new module: give it a place, and a line in CONTRIBUTING.md.
FLOORS = (
    (
        "_rows",
        "_scope",
        "_shared",
        "_posterior",
        "_statistics",
        "_kurtosis",
        "_factor",
        "_newton",
        "_em",
        "_analyser",
        "_exact",
        "_variational",
        "cython_amofa",
        "_version",
        "blas_memory",
        "warnings",
        "archive",
        "records",
        "criterion",
        "frames",
        "history",
        "table_columns",
    ),
    ("mapped", "parameters", "table_text", "threads"),
    (
        "analyser",
        "arguments",
        "clock",
        "baselines._gaussian",
        "door",
        "handle",
        "journal",
        "limits",
        "metrics",
        "repeats",
        "samples",
        "summary",
        "validation",
    ),
    ("conditional", "frozen", "options"),
    (
        "baselines._componentwise",
        "baselines._partitions",
        "baselines._variational",
        "coordinates",
        "em",
        "mixture",
        "progress",
        "results",
        "panel",
        "tables",
    ),
    ("baselines.gaussian_per_class", "baselines.ulfmm", "exact_em", "io", "moves", "pooling", "starts", "watch"),
    ("baselines._births", "baselines.imofa", "baselines.mfa", "initial", "merges", "plot._axes", "search"),
    ("baselines.vbmofa", "checkpoint", "plot._plane", "thorough"),
    ("fitting", "plot._rows"),
    ("baselines", "classes", "plot._search", "sklearn._options"),
    ("__init__", "demo", "plot._structure", "sklearn._classifier", "sklearn._mixture", "sklearn._regressor"),
    ("plot", "sklearn"),
    ("cli._files", "cli._options", "cli._output"),
    ("cli._models", "cli._pictures", "cli._rows"),
    ("cli._main",),
    ("cli",),
    ("__main__",),
)
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}
MODULES = ["__init__", *sorted(m.name.removeprefix("amofa.") for m in pkgutil.walk_packages(amofa.__path__, "amofa."))]
EXTENSION_SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def origin(name):
    """File of a module of the installed package."""
    spec = importlib.util.find_spec("amofa" if name == "__init__" else f"amofa.{name}")
    return Path(spec.origin)


def imported_at_import(tree):
    """Names of the package's own modules that a module's top level imports; "__init__" for the package itself."""
    for node in (inner for outer in tree.body for inner in _outside_functions(outer)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package, _, name = alias.name.partition(".")
                if package == "amofa":
                    yield name or "__init__"
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            package, _, name = (node.module or "").partition(".")
            if package == "amofa":
                inner = [f"{name}.{a.name}" if name else a.name for a in node.names]
                yield from [i if i in FLOOR else name or "__init__" for i in inner]


def _outside_functions(node):
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _outside_functions(child)


# ---- what is installed -----------------------------------------------------------------------------------------------


def test_version_is_that_of_the_metadata():
    assert importlib.metadata.version("amofa") == amofa.__version__


def test_public_names_exist():
    assert [name for name in amofa.__all__ if not hasattr(amofa, name)] == []


def test_package_is_typed():
    assert importlib.resources.files("amofa").joinpath("py.typed").is_file()


def test_compiled_modules_have_stubs():
    files = importlib.resources.files("amofa")
    compiled = [name for name in MODULES if origin(name).name.endswith(EXTENSION_SUFFIXES)]
    assert compiled
    assert [name for name in compiled if not files.joinpath(f"{name}.pyi").is_file()] == []


def test_command_is_installed():
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="amofa")
    assert command.value == "amofa.cli:main"
    assert callable(command.load())


def test_compiled_modules_do_not_tell_where_they_were_built():
    for name in MODULES:
        if origin(name).name.endswith(EXTENSION_SUFFIXES):
            assert str(ROOT).encode() not in origin(name).read_bytes(), name


# ---- imports ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_down(name):
    assert name in FLOOR, f"give {name} a place in FLOORS"
    if origin(name).suffix != ".py":
        return
    for lower in imported_at_import(ast.parse(origin(name).read_text(encoding="utf-8"))):
        assert FLOOR[lower] < FLOOR[name], f"{name} imports {lower}"


def test_import_loads_no_optional_package(tmp_path):
    # -P: the current folder stays off sys.path, as for the command.
    code = "import sys, amofa; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert {"amofa", "numpy", "scipy"} <= loaded
    optional = {"sklearn", "matplotlib", "rich", "pandas", "polars", "pyarrow", "joblib", "hypothesis", "pytest"}
    assert loaded.isdisjoint(optional)


# ---- the build's lists -----------------------------------------------------------------------------------------------


def listed(meson_build):
    """Strings of a meson.build file of the checkout; skips where there is no checkout."""
    path = ROOT / meson_build
    if not path.is_file():
        pytest.skip("not a checkout")
    return set(re.findall(r"'([^']*)'", path.read_text(encoding="utf-8")))


def test_build_installs_every_python_file():
    names = listed("amofa/meson.build")
    wanted = {p.name for p in (ROOT / "amofa").iterdir() if p.suffix in (".py", ".pyi", ".typed")}
    assert wanted - names == set()
    assert {name for name in names if name.endswith((".py", ".pyi"))} - wanted == {"_version.py"}


@pytest.mark.parametrize("folder", ["baselines", "cli", "plot", "sklearn"])
def test_build_installs_every_python_file_of_a_folder(folder):
    names = listed(f"amofa/{folder}/meson.build")
    wanted = {p.name for p in (ROOT / "amofa" / folder).glob("*.py")}
    assert {name for name in names if name.endswith(".py")} == wanted


def test_build_compiles_every_cython_file():
    names = listed("src/meson.build")
    assert {p.stem for p in (ROOT / "src").glob("*.pyx")} - names == set()
