"""Seeded faults: change one thing at a time in a module, and see whether its tests notice.

    python bench/mutants.py                       # all modules of TESTS
    python bench/mutants.py criterion em          # these
    python bench/mutants.py em --lines 78-96      # what is changed there alone
    python bench/mutants.py exact_em --every 10   # a tenth

Faults: operators swapped, comparisons moved and turned round, constants changed, `not` and minus dropped, conditions
held true or false, one argument in the place of a call, keywords left out, nothing returned, statements removed. No
file is changed: each mutant is compiled in a fork of this process, where the libraries are imported already, and is
what `import` finds there. Printed are those that no test caught, save the ones of bench/mutants.toml, which says why
there is nothing to catch; with one or more the status is 1. Any kind of install does; Windows does not: it has no fork.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import math
import os
import re
import resource
import signal
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

os.environ.setdefault("OMP_NUM_THREADS", "1")
# The tests need no plugins, and without them pytest takes libraries that are imported before it looks at them.
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
# What every mutant would import anew.
for library in ("hypothesis", "numpy", "pytest", "scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats"):
    importlib.import_module(library)
import pytest  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
# The tests that must notice a fault.
TESTS = {
    "criterion": ["test_criterion.py"],
    "em": ["test_em.py"],
    "exact_em": ["test_exact_em.py"],
    "analyser": ["test_analyser.py"],
    "limits": ["test_limits.py"],
}
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
# A mutant does not end if its tests take so many times the processor's seconds of those of the module as it is, and at
# least so many.
PATIENCE, LEAST_SECONDS = 5.0, 10.0

SWAPS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}


@dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes
    ----------
    line : int
    text : str
        The line, without its indentation.
    before, after : str
        What stands in it, and in its place.
    code : code object
        Of the changed module.
    """

    line: int
    text: str
    before: str
    after: str
    code: CodeType


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of an expression or a statement."""
    match node:
        case ast.BinOp(left, op, right):
            for swap in SWAPS.get(type(op), ()):
                yield ast.BinOp(left, swap(), right)
        case ast.AugAssign(target, op, value):
            for swap in SWAPS.get(type(op), ()):
                yield ast.AugAssign(target, swap(), value)
        case ast.Compare(left, [op], rights):
            for swap in SWAPS.get(type(op), ()):
                yield ast.Compare(left, [swap()], rights)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(SWAPS[type(op)][0](), values)
            yield from values
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(str(value)) if value:
            yield ast.Constant("")
        case ast.Call(function, arguments, keywords):
            # max(a, b), abs(a), math.log(a): of a call with many arguments none can be meant.
            yield from (a for a in arguments if len(arguments) <= 2 and not isinstance(a, ast.Starred))
            yield from (
                ast.Call(function, arguments, [k for k in keywords if k is not out])
                for out in keywords
                if out.arg != "strict"
            )
    match node:
        case ast.If(_, body, orelse):
            yield from (ast.If(ast.Constant(held), body, orelse) for held in (True, False))
        case ast.comprehension(target, iterable, [_, *_]):
            yield ast.comprehension(target, iterable, [], node.is_async)
        case ast.Return(value) if value is not None:
            yield ast.Return(ast.Constant(None))
        case ast.Assign() | ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue() | ast.While() | ast.For():
            yield ast.Pass()
        case ast.Expr(value) if not isinstance(value, ast.Constant):
            yield ast.Pass()


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Where something can be replaced: parent, field, index in it, child; no annotations, docstrings or messages."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "exc"):
            continue
        children = value if isinstance(value, list) else [value]
        for i, child in enumerate(children):
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            # zip(..., strict=True) holds what the code says already.
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            yield node, name, i if isinstance(value, list) else None, child
            yield from places(child)


def put(parent: ast.AST, field: str, index: int | None, child: ast.AST) -> None:
    if index is None:
        setattr(parent, field, child)
    else:
        getattr(parent, field)[index] = child


def headline(node: ast.AST) -> str:
    return "" if isinstance(node, ast.Pass) else ast.unparse(node).split("\n")[0]


def mutants(path: Path) -> Iterator[Mutant]:
    """All of one module, by line."""
    source = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(source), source.splitlines()
    for parent, field, index, child in list(places(tree)):
        for changed in replacements(child):
            line = getattr(child, "lineno", 0) or child.target.lineno  # type: ignore[attr-defined]
            put(parent, field, index, changed if hasattr(changed, "lineno") else ast.copy_location(changed, child))
            code = compile(ast.fix_missing_locations(tree), str(path), "exec")
            put(parent, field, index, child)
            yield Mutant(line, lines[line - 1].strip(), headline(child), headline(changed), code)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module whose code is given."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self.name, self.path, self.code = name, path, code

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)


def outcome(name: str, path: Path, code: CodeType, seconds: float) -> tuple[str, float]:
    """What the tests say of a module, in a fork: "survived" where they pass, "killed", or "timeout"; seconds taken."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds)))
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            sys.meta_path.insert(0, Finder(f"amofa.{name}", path, code))
            tests = [str(ROOT / "tests" / test) for test in TESTS[name]]
            status = int(
                pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), *tests])
            )
        finally:
            os._exit(status)
    _, status, usage = os.wait4(child, 0)
    taken = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return "timeout", taken
    return "survived" if status == 0 else "killed", taken


def check(name: str, lines: range, every: int) -> bool:
    """Try the mutants of a module, print what is left. Returns whether all were caught or have a reason."""
    package = importlib.util.find_spec("amofa")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).with_name(f"{name}.py")
    known = tomllib.loads((ROOT / "bench" / "mutants.toml").read_text(encoding="utf-8")).get(name, [])
    reasons = {(entry["line"], entry["before"], entry["after"]) for entry in known}
    result, taken = outcome(name, path, compile(path.read_bytes(), str(path), "exec"), 3600.0)
    if result != "survived":
        sys.exit(f"{name}: its tests fail as it is")
    seconds = max(LEAST_SECONDS, PATIENCE * taken)
    counts = {"killed": 0, "timeout": 0, "equivalent": 0, "survived": 0}
    for mutant in [mutant for mutant in mutants(path) if mutant.line in lines][::every]:
        result, _ = outcome(name, path, mutant.code, seconds)
        if result == "survived" and (mutant.text, mutant.before, mutant.after) in reasons:
            result = "equivalent"
        counts[result] += 1
        if result == "survived":
            print(f"{name}.py:{mutant.line}: {mutant.text}\n    {mutant.before}  ->  {mutant.after}", flush=True)
    print(f"{name}: {sum(counts.values())} mutants, " + ", ".join(f"{n} {word}" for word, n in counts.items()))
    return counts["survived"] == 0


def line_range(text: str) -> range:
    if not re.fullmatch(r"\d+-\d+", text):
        raise argparse.ArgumentTypeError(f"must be FIRST-LAST, got {text!r}")
    first, last = map(int, text.split("-"))
    return range(first, last + 1)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text!r}")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="*", choices=[[], *TESTS], help="default: all")
    parser.add_argument("--lines", type=line_range, default=range(10**6), metavar="FIRST-LAST")
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="every Nth alone, for a quick look")
    options = parser.parse_args()
    caught = [check(name, options.lines, options.every) for name in options.modules or TESTS]
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
