"""Draw layers.svg, the picture of docs/architecture.md: the packages of amofa, and which of them import which.

    python docs/images/make_layers.py

Layers are those that tests/test_packaging.py checks. Each box names the packages that it uses, except those that it
also reaches through them. tests/test_docs.py fails if the picture is out of date.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_name("layers.svg")
# Users see `amofa/__init__.py` as the package itself; the others add nothing to the picture.
TITLES = {"__init__": "amofa"}
LEFT_OUT = {"_version", "__main__"}

BOX_HEIGHT, GAP = 42, 14
PUBLIC, PRIVATE = "#dcebdc", "#eef2f6"


def layers() -> list[list[str]]:
    """Return the names in each layer, from the ground up, as tests/test_packaging.py has them."""
    tree = ast.parse((ROOT / "tests" / "test_packaging.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS":
            rows = [[name for name in layer if name not in LEFT_OUT] for layer in ast.literal_eval(node.value)]
            return [row for row in rows if row]
    raise LookupError("tests/test_packaging.py has no LAYERS")


def sources(name: str) -> list[Path]:
    """Return the Python, stub and Cython files of a module or package."""
    files = []
    for root in (ROOT / "amofa", ROOT / "src" / "amofa"):
        for suffix in (".py", ".pyx"):
            files += [root / f"{name}{suffix}", *(root / name).glob(f"**/*{suffix}")]
    return sorted(file for file in files if file.is_file())


def imported(file: Path) -> set[str]:
    """Return the names of the modules and packages of amofa that a file imports, not for types alone."""
    found = set()
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".pyx":
        return set(re.findall(r"^\s*(?:from|cimport|import) amofa\.(\w+)", text, re.MULTILINE))
    nodes: list[ast.AST] = [ast.parse(text)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "amofa":
            names = [f"amofa.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        found |= {name.split(".")[1] if "." in name else "__init__" for name in names if name.split(".")[0] == "amofa"}
        nodes += ast.iter_child_nodes(node)
    return found


def arrows(names: list[str]) -> list[tuple[str, str]]:
    """Return who uses whom, without what follows from the other pairs. Names are ordered from the ground up."""
    below: dict[str, set[str]] = {}
    result = []
    for name in names:
        direct = set().union(*map(imported, sources(name))) & set(below)
        indirect = set().union(*(below[other] for other in direct))
        result += [(name, other) for other in names if other in direct - indirect]
        below[name] = direct | indirect
    return result


def draw() -> str:
    """Return the picture as SVG."""
    rows = layers()
    uses: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for upper, lower in arrows(list(uses)):
        uses[upper].append(lower)
    boxes = {name: Box(TITLES.get(name, name), "uses " + ", ".join(uses[name]) if uses[name] else "") for name in uses}
    width = max(sum(boxes[name].width + GAP for name in row) for row in rows) + GAP
    height = (BOX_HEIGHT + GAP) * len(rows) + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" text-anchor="middle">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for i, row in enumerate(reversed(rows)):
        y = GAP + (BOX_HEIGHT + GAP) * i
        x = (width - sum(boxes[name].width + GAP for name in row) + GAP) / 2
        for name in row:
            lines += boxes[name].drawn(x, y, PRIVATE if boxes[name].title.startswith("_") else PUBLIC)
            x += boxes[name].width + GAP
    return "\n".join([*lines, "</svg>"]) + "\n"


class Box(NamedTuple):
    title: str
    text: str

    @property
    def width(self) -> float:
        return max(90.0, 9.5 * len(self.title) + 24, 6.0 * len(self.text) + 20)

    def drawn(self, x: float, y: float, color: str) -> list[str]:
        """Return the box with its upper left corner at (x, y)."""
        middle, first = x + self.width / 2, y + (17 if self.text else 25)
        lines = [
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{self.width:.0f}" height="{BOX_HEIGHT}" rx="5" fill="{color}" '
            'stroke="#667788"/>',
            f'<text x="{middle:.0f}" y="{first:.0f}" font-size="14" font-weight="bold">{self.title}</text>',
        ]
        if self.text:
            lines.append(f'<text x="{middle:.0f}" y="{y + 33:.0f}" font-size="11" fill="#445566">{self.text}</text>')
        return lines


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
