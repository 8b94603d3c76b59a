"""The documentation: every page can be reached, nothing public is missing, the gallery and the guide's commands run.

The guide's ``pycon`` blocks run in tests/test_docstrings.py.
"""

import importlib
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from amofa.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("api/*.md"), *DOCS.glob("api/*.rst")])
EXAMPLES = sorted(DOCS.glob("gallery/plot_*.py"))
# Modules whose public names are all in the API.
PUBLIC = ("amofa", "amofa.baselines", "amofa.plot", "amofa.sklearn")


def toctree_entries(page):
    """Documents that a page puts into the table of contents, by their paths without a suffix."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    entries = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
    return [(page.parent / entry).relative_to(DOCS).as_posix() for entry in entries]


def links(page):
    """Targets of a page's links to other files, without what follows a #."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    return [target for target in targets if target and "://" not in target]


def documented_names():
    """Full names of what the API's pages have directives for, with ``:members:`` of a module spelt out."""
    names = set()
    for page in DOCS.glob("api/*.rst"):
        module = ""
        for kind, name, options in re.findall(
            r"^\.\. (currentmodule|auto\w+):: (\S+)\n((?:   :.*\n)*)", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            if kind == "currentmodule":
                module = name
            elif kind == "automodule":
                # Without members, those have directives of their own.
                listed = re.search(r":members:(.*)", options)
                if listed is None:
                    continue
                listed = listed[1].replace(" ", "")
                members = listed.split(",") if listed else importlib.import_module(name).__all__
                names.update(f"{name}.{member}" for member in members)
            else:
                names.add(name if name.startswith("amofa.") else f"{module}.{name}")
    return names


def test_every_page_is_in_the_table_of_contents():
    listed = [entry for page in PAGES for entry in toctree_entries(page)]
    assert len(listed) == len(set(listed))
    written = {page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES}
    assert set(listed) == (written - {"index"}) | {"auto_gallery/index"}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    # What sphinx-gallery makes of gallery/plot_x.py is auto_gallery/plot_x.
    made = {"auto_gallery/index", *(f"auto_gallery/{example.stem}" for example in EXAMPLES)}
    assert [target for target in links(page) if target not in made and not (page.parent / target).exists()] == []


def test_the_readme_can_be_read_away_from_the_repository():
    """Links to files are absolute, with the one address in pyproject.toml, and defined at the end of the page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert links(ROOT / "README.md") == [], "write [text][page], and [page]: the absolute address at the end"
    (home,) = re.findall(r'^Source = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    defined = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.MULTILINE))
    assert set(re.findall(r"\]\[([^\]]+)\]", text)) == set(defined)
    for url in defined.values():
        path = re.fullmatch(rf"{re.escape(home)}/(?:blob|raw)/main/([^#]+)(#.*)?", url)[1]
        assert (ROOT / path).is_file(), url
    assert set(re.findall(r"\]\((http[^)\s]+)", text)) <= {"https://arxiv.org/abs/1507.02801"}


def test_one_address_is_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project["urls"]["Source"]
    assert {"Source", "Documentation", "Issues", "Changelog"} <= set(project["urls"])
    assert [name for name, url in project["urls"].items() if not url.startswith(home)] == ["Paper"]
    for name in ("CITATION.cff", "packaging/conda/recipe.yaml"):
        urls = re.findall(r"https://\S+", (ROOT / name).read_text(encoding="utf-8"))
        assert home in urls
        assert [url for url in urls if not url.startswith(home) and "arxiv.org" not in url] == [], name


def test_the_readme_begins_with_pip():
    commands = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert commands[0] == "python -m pip install amofa\n"


def test_the_picture_of_the_layers_is_up_to_date():
    script = runpy.run_path(str(DOCS / "images" / "make_layers.py"))
    picture = script["PICTURE"].read_text(encoding="utf-8")
    assert picture == script["draw"](), "run python docs/images/make_layers.py"


def test_the_architecture_page_names_all_modules_of_a_fit_and_no_others():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    packages = [ROOT / "amofa" / name for name in ("_data", "_em", "_model", "_parallel", "_search", "_stream")]
    modules = {f"{folder.name}/{path.name}" for folder in packages for path in folder.glob("[!_]*.py")}
    assert set(re.findall(r"`(_\w+/\w+\.py)`", page)) == modules
    paths = re.findall(r"`([\w/]+\.(?:pyx?|md))`", page)
    assert [path for path in paths if not ((ROOT / path).exists() or (ROOT / "amofa" / path).exists())] == []


def test_each_picture_is_shown_beside_its_function():
    page = (DOCS / "api" / "plot.rst").read_text(encoding="utf-8")
    functions = re.findall(
        r"^\.\. autofunction:: (\w+)\n\n\.\. image:: \.\./images/plot/(\w+)\.png", page, re.MULTILINE
    )
    assert {one for one, _ in functions} == set(importlib.import_module("amofa.plot").__all__) - {
        *("sensible", "suitable", "use_files"),
    }
    guide = (DOCS / "pictures.md").read_text(encoding="utf-8")
    for function, picture in functions:
        assert function == picture
        assert (DOCS / "images" / "plot" / f"{picture}.png").is_file()
        assert f"`{function}(" in guide or f"amofa.plot.{function}(" in guide


def test_the_api_is_complete():
    pytest.importorskip("sklearn")
    public = {f"{module}.{name}" for module in PUBLIC for name in importlib.import_module(module).__all__}
    documented = documented_names()
    assert sorted(public - documented - {"amofa.__version__"}) == []
    for name in documented:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_gallery(example, tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    plt = importlib.import_module("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example))
    assert plt.get_fignums()
    for number in plt.get_fignums():
        plt.figure(number).savefig("figure.png", dpi=50)
        image = plt.imread("figure.png")
        assert len(np.unique(image.reshape(-1, image.shape[-1]), axis=0)) > 20


def test_there_is_a_gallery():
    assert len(EXAMPLES) > 5
    for example in EXAMPLES:  # a title, underlined, is what sphinx-gallery takes for its page
        title, line = example.read_text(encoding="utf-8").splitlines()[1:3]
        assert line == "=" * len(title)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is needed")
def test_commands_of_the_command_line_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "command_line.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for command in [block] if block.startswith("python") else block.splitlines():
            program, *arguments = shlex.split(command, comments=True)
            if program == "amofa":  # in this process, which is quicker than a new one for each
                assert main(arguments) == 0, command
            else:
                here = {**os.environ, "THIS_PYTHON": sys.executable}
                subprocess.run(["bash", "-c", 'python() { "$THIS_PYTHON" "$@"; }\n' + command], env=here, check=True)
    assert capsys.readouterr().err == ""
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {
        *("rows.csv", "model.npz", "labels.csv", "drawn.csv", "holes.csv", "whole.csv", "clusters.png", "search.png"),
        *("costs.png", "clusters.csv", "tree.png", "labelled.csv", "classes.npz", "classes.csv"),
    }
    rows, holes, whole = (
        np.loadtxt(tmp_path / f"{name}.csv", delimiter=",", skiprows=1) for name in ("rows", "holes", "whole")
    )
    lost = holes == -9999
    assert lost.any()
    np.testing.assert_array_equal(whole[~lost], rows[~lost])
    assert np.abs(whole[lost] - rows[lost]).mean() < rows[lost].std()
