"""Which lines of the compiled core were run: python .ci/core_coverage.py BUILD_FOLDER

BUILD_FOLDER is that of a build with -Db_coverage=true, whose modules have run since (`.ci/coverage` does both). gcov
counts lines of C. Cython writes before the C of a statement which line of the .pyx, or of a .pxi that it includes, this
is from: that line counts as run if some of this C was. Lines that only raise what a caller of Python did wrong are like
all others.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

_MARK = re.compile(r'^ *\/\* "(?:.*/)?(\w+\.pyx|_cython_amofa/\w+\.pxi)":(\d+)$')


def origins(c_file: Path) -> dict[int, tuple[str, int]]:
    """The source file and line that each line of C is from; what Cython adds on its own account is left out."""
    origin: dict[int, tuple[str, int]] = {}
    name, current, is_comment = c_file.name.removesuffix(".c"), None, False
    for number, line in enumerate(c_file.read_text(encoding="utf-8").splitlines(), start=1):
        if mark := _MARK.match(line):
            is_own = mark[1] == name or mark[1].endswith(".pxi")
            current, is_comment = (mark[1], int(mark[2])) if is_own else None, True
        elif is_comment:
            is_comment = not line.endswith("*/")
        elif line.startswith("}") or "/* function exit code */" in line:
            current = None
        elif current is not None:
            origin[number] = current
    return origin


def counts(build: Path) -> dict[str, dict[int, int]]:
    """How often each line of each source file was run, in all modules together."""
    runs: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for data in sorted(build.glob("src/*.p/*.gcda")):
        command = ["gcov", "--json-format", "--stdout", str(data)]
        output = subprocess.run(command, cwd=build, stdout=subprocess.PIPE, check=True).stdout
        for file in json.loads(output)["files"]:
            path = build / file["file"]
            origin = origins(path) if path.name.endswith(".pyx.c") else None
            if origin is None and not (path.suffix == ".h" and path.parent.name == "src"):
                continue
            for line in file["lines"]:
                number = line["line_number"]
                source = (path.name, number) if origin is None else origin.get(number)
                if source is not None:
                    runs[source[0]][source[1]] += line["count"]
    return runs


def ranges(numbers: list[int]) -> str:
    """Sorted numbers as text: 3-5, 9."""
    starts = [b for a, b in pairwise([-1, *numbers]) if b != a + 1]
    ends = [a for a, b in pairwise([*numbers, sys.maxsize]) if b != a + 1]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def main() -> int:
    runs = counts(Path(sys.argv[1]).resolve())
    if not runs:
        print("no module of this build has been run, or it was not made with -Db_coverage=true", file=sys.stderr)
        return 2
    total = missed = 0
    print(f"{'file':<27} {'lines':>6} {'missed':>6} {'run':>7}")
    for name, lines in sorted(runs.items()):
        missing = sorted(number for number, count in lines.items() if not count)
        total, missed = total + len(lines), missed + len(missing)
        print(f"{name:<27} {len(lines):6} {len(missing):6} {1 - len(missing) / len(lines):7.1%}  {ranges(missing)}")
    print(f"{'in all':<27} {total:6} {missed:6} {1 - missed / total:7.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
