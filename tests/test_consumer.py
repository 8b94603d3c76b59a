"""Projects that cimport amofa are built, by setuptools and by meson-python, and agree with plain numpy.

Only an installed wheel can be cimported from: with an editable install, and without a compiler or the build tools,
these tests are skipped. `.ci/run` runs them in an environment that has nothing but the wheel and the tools.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import amofa

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    # What the example's own comparison with numpy prints, and how often; it fails beyond 1e-10.
    "cython_hmm": {r"differ by \S+; numpy .* times as fast": 3, "log densities differ by": 1},
    "cython_stream": {r"log densities differ by \S+; Python": 2, "after mini-batch steps differ by": 2},
}
PAGE = ROOT / "docs/cython.md"
TOOLS = ("Cython", "setuptools", "mesonpy")


def is_editable():
    return Path(amofa.__file__).parent == ROOT / "amofa"


@pytest.fixture(params=EXAMPLES)
def project(request, tmp_path):
    """A copy of an example, to be built there."""
    if not (ROOT / "examples").is_dir():
        pytest.skip("not a checkout")
    if is_editable():
        pytest.skip("amofa is an editable install, which Cython cannot cimport from")
    missing = [name for name in TOOLS if importlib.util.find_spec(name) is None]
    if missing or shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip(f"no C compiler, or not installed: {missing}")
    return shutil.copytree(ROOT / "examples" / request.param, tmp_path / request.param)


def run(*command, cwd, **environment):
    """Of this interpreter; its output."""
    result = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **environment},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def check(folder):
    output = run("check.py", cwd=folder, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    print(output)
    for line, count in EXAMPLES[folder.name].items():
        assert len(re.findall(line, output)) == count


def test_code_looks_at_every_status():
    """A call whose result nobody reads would be a line of its own."""
    header = ROOT / "src/amofa/cython_amofa.pxd"
    if not header.is_file():
        pytest.skip("not a checkout")
    names = "|".join(re.findall(r"^cdef (?:int|Py_ssize_t) (\w+)", header.read_text(encoding="utf-8"), re.MULTILINE))
    code = "\n".join(blocks(PAGE, "cython")) + "".join(p.read_text("utf-8") for p in ROOT.glob("examples/*/*.pyx"))
    assert re.findall(rf"^\s*(?:{names})\(.*", code, re.MULTILINE) == []


def test_the_page_names_the_oldest_cython():
    if not PAGE.is_file():
        pytest.skip("not a checkout")
    (oldest,) = set(re.findall(r'"cython>=([\d.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    assert f"Cython {oldest} or later is needed" in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_setuptools(project):
    run("setup.py", "--quiet", "build_ext", "--inplace", cwd=project)
    check(project)


@pytest.mark.slow
def test_meson_python(project):
    run("-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", "dist", ".", cwd=project)
    (wheel,) = (project / "dist").glob("*.whl")
    # The wheel's one module, beside check.py.
    run("-m", "zipfile", "-e", str(wheel), ".", cwd=project)
    assert list(project.glob("cython_*.so")) or list(project.glob("cython_*.pyd"))
    check(project)


def blocks(page, language):
    """Fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_code_of_the_page_is_that_of_the_examples():
    if not PAGE.is_file():
        pytest.skip("not a checkout")
    sources = {"cython": "*.pyx", "meson": "meson.build", "python": "setup.py"}
    for language, name in sources.items():
        code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob(f"cython_*/{name}"))
        found = blocks(PAGE, language)
        assert found, language
        for block in found:
            for part in block.split("\n...\n"):
                assert part.strip("\n") in code, part


@pytest.mark.parametrize("example", EXAMPLES)
def test_commands_of_the_page_are_those_of_an_example(example):
    if not PAGE.is_file():
        pytest.skip("not a checkout")
    commands = "".join(blocks(ROOT / "examples" / example / "README.md", "sh")).splitlines()
    assert len(commands) > 3
    assert [line for block in blocks(PAGE, "sh") for line in block.splitlines() if line not in commands] == []
