"""A project that cimports amofa is built, by setuptools and by meson-python, and agrees with plain numpy.

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
EXAMPLE = ROOT / "examples/cython_hmm"
PAGE = ROOT / "docs/cython.md"
TOOLS = ("Cython", "setuptools", "mesonpy")


def is_editable():
    return Path(amofa.__file__).parent == ROOT / "amofa"


@pytest.fixture
def project(tmp_path):
    """A copy of the example, to be built there."""
    if not EXAMPLE.is_dir():
        pytest.skip("not a checkout")
    if is_editable():
        pytest.skip("amofa is an editable install, which Cython cannot cimport from")
    missing = [name for name in TOOLS if importlib.util.find_spec(name) is None]
    if missing or shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip(f"no C compiler, or not installed: {missing}")
    return shutil.copytree(EXAMPLE, tmp_path / "cython_hmm")


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
    """Run the example's own comparison with numpy; it fails beyond 1e-10."""
    output = run("check.py", cwd=folder, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    print(output)
    assert len(re.findall(r"differ by \S+; numpy .* times as fast", output)) == 3
    assert "log densities differ by" in output


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
    assert list(project.glob("cython_hmm.*.so")) or list(project.glob("cython_hmm.*.pyd"))
    check(project)


def blocks(page, language):
    """Fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_code_of_the_page_is_that_of_the_example():
    if not PAGE.is_file():
        pytest.skip("not a checkout")
    sources = {"cython": "cython_hmm.pyx", "meson": "meson.build", "python": "setup.py"}
    for language, name in sources.items():
        code = (EXAMPLE / name).read_text(encoding="utf-8")
        found = blocks(PAGE, language)
        assert found, language
        for block in found:
            for part in block.split("\n...\n"):
                assert part.strip("\n") in code, part


def test_commands_of_the_page_are_those_of_the_example():
    if not PAGE.is_file():
        pytest.skip("not a checkout")
    commands = "".join(blocks(EXAMPLE / "README.md", "sh")).splitlines()
    assert len(commands) > 3
    assert [line for block in blocks(PAGE, "sh") for line in block.splitlines() if line not in commands] == []
