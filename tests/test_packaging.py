"""The installed package is complete, says who it is, and imports only what and where it should."""

import ast
import graphlib
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
# From the ground up; a module may import those of lower layers, and of its own package if it has one.
LAYERS = (
    ("_noise", "_typing", "_version"),
    ("_background", "criterion", "history", "warnings"),
    ("_kernels", "cython_amofa"),
    ("_parameters", "_parallel"),
    ("handle", "metrics", "threads"),
    ("_data", "_show_versions"),
    ("_em",),
    ("_model",),
    ("inspection", "plot"),
    ("mixture",),
    ("pooling",),
    ("_search",),
    ("fitting",),
    ("_stream",),
    ("streaming",),
    ("io",),
    ("baselines", "blocks", "classes", "dask", "demo", "scanning"),
    ("sklearn",),
    ("__init__",),
    ("cli",),
    ("__main__",),
)
LAYER = {name: layer for layer, names in enumerate(LAYERS) for name in names}
MODULES = ["__init__", *sorted(m.name.removeprefix("amofa.") for m in pkgutil.walk_packages(amofa.__path__, "amofa."))]
EXTENSION_SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def origin(name):
    """File of a module of the installed package."""
    spec = importlib.util.find_spec("amofa" if name == "__init__" else f"amofa.{name}")
    return Path(spec.origin)


def package(name):
    """The part of a module's name that has a layer."""
    return name.partition(".")[0]


def imported(tree):
    """Names of the package's own modules that a module imports, inside functions too, but not for types alone."""
    for node in tree.body if isinstance(tree, ast.Module) else [tree]:
        yield from _imported_by(node)


def _imported_by(node):
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (a.name.partition(".")[2] or "__init__" for a in node.names if package(a.name) == "amofa")
    elif isinstance(node, ast.ImportFrom) and package(node.module or "") == "amofa":
        name = node.module.partition(".")[2]
        members = [f"{name}.{a.name}".lstrip(".") for a in node.names]
        modules = [member for member in members if member in MODULES]
        yield from (modules or ([name] if name else members))
    for child in ast.iter_child_nodes(node):
        yield from _imported_by(child)


# ---- what is installed -----------------------------------------------------------------------------------------------


def test_version_is_that_of_the_metadata():
    assert importlib.metadata.version("amofa") == amofa.__version__


def test_public_names_exist():
    assert [name for name in amofa.__all__ if not hasattr(amofa, name)] == []


def test_dir_shows_public_names_and_modules_and_nothing_else():
    modules = {
        "baselines",
        "blocks",
        "classes",
        "criterion",
        "cython_amofa",
        "dask",
        "metrics",
        "plot",
        "sklearn",
        "threads",
    }
    assert set(dir(amofa)) == {*amofa.__all__, *modules}
    assert modules <= set(MODULES)


def test_public_modules_are_loaded_when_they_are_used(tmp_path):
    code = """import sys, amofa
assert not {"amofa.plot", "amofa.classes", "amofa.baselines", "amofa.sklearn"} & set(sys.modules)
print(amofa.plot.clusters.__name__, amofa.metrics.__name__, amofa.criterion.__name__, amofa.classes.__name__)
try:
    amofa.plots
except AttributeError as error:
    print(error)"""
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines() == [
        "clusters amofa.metrics amofa.criterion amofa.classes",
        "module 'amofa' has no attribute 'plots'",
    ]


def test_a_module_whose_package_is_missing_says_what_to_install(tmp_path):
    code = """import inspect, sys
sys.modules["sklearn"] = None
import amofa
assert "fit" in dict(inspect.getmembers(amofa))
amofa.sklearn.AMoFA"""
    result = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "AttributeError: amofa.sklearn needs scikit-learn: pip install 'amofa[sklearn]'" in result.stderr


def test_versions_are_shown(capsys):
    amofa.show_versions()
    shown = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["amofa"] == amofa.__version__
    assert shown["python"].startswith(sys.version.split()[0])
    assert shown["numpy"] == importlib.metadata.version("numpy")
    assert "cores for this process" in shown["processor"]
    assert any(value.startswith(f"amofa {amofa.__version__}: ") for name, value in shown.items() if "threads" in name)


def test_package_is_typed():
    assert importlib.resources.files("amofa").joinpath("py.typed").is_file()


def test_compiled_modules_have_stubs():
    files = importlib.resources.files("amofa")
    compiled = [name for name in MODULES if origin(name).name.endswith(EXTENSION_SUFFIXES)]
    assert compiled
    assert [name for name in compiled if not files.joinpath(f"{name.replace('.', '/')}.pyi").is_file()] == []


def test_command_is_installed():
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="amofa")
    assert command.value == "amofa.cli:main"
    assert callable(command.load())


def test_compiled_modules_do_not_tell_where_they_were_built():
    for name in MODULES:
        if origin(name).name.endswith(EXTENSION_SUFFIXES):
            assert str(ROOT).encode() not in origin(name).read_bytes(), name


# ---- imports ---------------------------------------------------------------------------------------------------------


def python_modules():
    """The package's modules that are written in Python, each with its syntax tree."""
    for name in MODULES:
        if origin(name).suffix == ".py":
            yield name, ast.parse(origin(name).read_text(encoding="utf-8"))


def test_imports_go_down():
    wrong = []
    for name, tree in python_modules():
        assert package(name) in LAYER, f"give {package(name)} a layer"
        for other in imported(tree):
            own_package = package(other) == package(name)
            if not own_package and LAYER[package(other)] >= LAYER[package(name)]:
                wrong.append(f"{name} imports {other}")
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others():
    known = set(MODULES)
    graph = {}
    for name, tree in python_modules():
        graph[name] = {other for other in imported(tree) if other in known and other != name}
    list(graphlib.TopologicalSorter(graph).static_order())


def test_the_source_folder_says_that_it_has_no_compiled_modules():
    if not (ROOT / "amofa").is_dir():
        pytest.skip("not a checkout")
    # An editable install would find its own modules first.
    code = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
sys.path.insert(0, "")
import amofa"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1
    assert "ImportError: this is the source folder of amofa" in result.stderr


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


# ---- versions that several files name -------------------------------------------------------------------------------


def read(name):
    """Text of a file of the checkout; skips where there is no checkout."""
    path = ROOT / name
    if not path.is_file():
        pytest.skip("not a checkout")
    return path.read_text(encoding="utf-8")


def test_classifiers_wheels_workflow_and_readme_name_the_same_pythons():
    project = read("pyproject.toml")
    minors = [int(minor) for minor in re.findall(r"Python :: 3\.(\d+)", project)]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert f'requires-python = ">=3.{minors[0]}"' in project
    (built,) = re.findall(r"^build = \[(.*)\]", project, re.MULTILINE)
    assert re.findall(r"cp3(\d+)-", built) == [str(minor) for minor in minors]
    (tested,) = re.findall(r"python: \[(.*)\]", read(".github/workflows/tests.yml"))
    assert re.findall(r'"3\.(\d+)"', tested) == [str(minor) for minor in minors]
    assert f"CPython 3.{minors[0]} to 3.{minors[-1]}" in read("README.md")


def test_citation_and_recipe_have_the_version():
    (version,) = re.findall(r"^  version: '(.+)',", read("meson.build"), re.MULTILINE)
    citation = read("CITATION.cff")
    assert f"\nversion: {version}\n" in citation
    assert re.search(r'^date-released: "\d{4}-\d\d-\d\d"$', citation, re.MULTILINE)
    assert f'version: "{version}"' in read("packaging/conda/recipe.yaml")


def test_the_recipe_asks_for_what_the_package_needs():
    project, recipe = read("pyproject.toml"), read("packaging/conda/recipe.yaml")
    run, host = recipe.split("  run:\n")[1], recipe.split("  host:\n")[1].split("  run:\n")[0]
    (needed,) = re.findall(r"^dependencies = \[(.*)\]", project, re.MULTILINE)
    assert [name for name in re.findall(r'"([^"]+)"', needed) if f"- {name.replace('>=', ' >=')}\n" not in run] == []
    (build,) = re.findall(r"^requires = \[(.*)\]", project, re.MULTILINE)
    missing = [name for name in re.findall(r'"([^"]+)"', build) if f"- {name.replace('>=', ' >=')}\n" not in host]
    assert missing == ["ninja"]  # a tool of the build's platform
    assert "    - ninja\n" in recipe


def test_workflows_name_actions_by_commit():
    for name in ("wheels", "tests"):
        used = re.findall(r"uses: (\S+)(.*)", read(f".github/workflows/{name}.yml"))
        assert used
        for action, comment in used:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


# ---- the build's lists -----------------------------------------------------------------------------------------------


def listed(meson_build):
    """Strings of a meson.build file of the checkout; skips where there is no checkout."""
    path = ROOT / meson_build
    if not path.is_file():
        pytest.skip("not a checkout")
    return set(re.findall(r"'([^']*)'", path.read_text(encoding="utf-8")))


def test_build_installs_every_python_file():
    names = listed("amofa/meson.build")
    folders = {p.name if p != ROOT / "amofa" else "." for p in (ROOT / "amofa").glob("**") if list(p.glob("*.py"))}
    files = {p.name for p in (ROOT / "amofa").glob("**/*.py")} | {"py.typed"}
    generated = {"_version.py.in", "_version.py"}
    assert {n for n in names if n.endswith((".py", ".typed", ".in"))} - generated == files - generated
    assert folders <= names


def test_build_compiles_every_cython_file():
    names = listed("src/meson.build")
    assert {p.stem for p in (ROOT / "src").glob("**/*.pyx")} - names == set()
