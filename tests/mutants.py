"""Do the tests notice? Small faults planted one at a time into a module, against the tests that should fail by them.

``python -m tests.mutants host/join/sequencer.py tests/conformance/test_sequence.py -k cpu``: each mutant changes
one comparison, sum, constant, condition or statement, drawn by ``--seed``. Those that all tests pass are printed as
``file:line  before  ->  after``: each asks for a test, or is dead code, or means the same.

``python -m tests.mutants host/native/core/memory.cpp,host/native/index/sorted_runs.hpp tests/native`` does so in C++:
all faults of a round are one build.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.progress import track

from tests.native_mutants import build

TREE = Path(__file__).parents[1]
OTHER = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """The mutants of a node."""
    mutant = copy.deepcopy(node)
    if isinstance(mutant, ast.Compare) and type(mutant.ops[0]) in OTHER:
        mutant.ops[0] = OTHER[type(mutant.ops[0])]()
        yield mutant
    elif isinstance(mutant, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(mutant.op) in OTHER:
        mutant.op = OTHER[type(mutant.op)]()
        yield mutant
    elif isinstance(mutant, ast.UnaryOp) and isinstance(mutant.op, ast.Not):
        yield mutant.operand
    elif isinstance(mutant, ast.Constant) and type(mutant.value) in (bool, int):
        mutant.value = not mutant.value if isinstance(mutant.value, bool) else mutant.value + 1
        yield mutant
    elif isinstance(mutant, ast.If | ast.While | ast.IfExp):
        mutant.test = ast.UnaryOp(ast.Not(), mutant.test)
        yield mutant
    elif (isinstance(mutant, ast.Expr) and isinstance(mutant.value, ast.Call)) or isinstance(mutant, ast.AugAssign):
        yield ast.copy_location(ast.Pass(), mutant)


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """The nodes of the code that runs, each as (its parent, field, place in it): no annotations, texts or errors."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list") or isinstance(value, ast.Raise):
            continue
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Raise | ast.Import | ast.ImportFrom):
                yield node, field, at
                yield from places(child)


def mutants(folder: Path, module: Path) -> Iterator[tuple[tuple[Path, str], str]]:
    """Each mutant as a file and its text, and what it changes."""
    tree = ast.parse((folder / module).read_text())
    for parent, field, at in list(places(tree)):
        held = getattr(parent, field)
        node = held if at is None else held[at]
        for mutant in changed(node):
            said = [ast.unparse(part).split("\n")[0] for part in (node, mutant)]
            if at is None:
                setattr(parent, field, mutant)
            else:
                held[at] = mutant
            text = ast.unparse(ast.fix_missing_locations(tree))
            yield (folder / module, text), f"{module}:{node.lineno}  {said[0]}  ->  {said[1]}"
            if at is None:
                setattr(parent, field, node)
            else:
                held[at] = node


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "modules", type=lambda text: [Path(each) for each in text.split(",")], help="separated by commas"
    )
    parser.add_argument("tests", nargs="+")
    parser.add_argument("-k", default="", help="as pytest has it")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600, help="a run that takes longer has failed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "tree"
        shutil.copytree(TREE, copied, symlinks=True, ignore=shutil.ignore_patterns(".git", ".venv", "build", "*.pyc"))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=mutants"]
        command += options.tests
        command += ["-k", options.k] if options.k else []
        environment = {**os.environ, "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}

        def passes() -> bool:
            try:
                done = subprocess.run(
                    command, cwd=copied, env=environment, capture_output=True, text=True, timeout=options.seconds
                )
            except subprocess.TimeoutExpired:
                return False
            return done.returncode == 0

        names = ", ".join(map(str, options.modules))
        if options.modules[0].suffix != ".py":
            drawn = list(build(copied, options.modules, options.count, options.seed).items())
        else:
            drawn = [(each, said) for module in options.modules for each, said in mutants(copied, module)]
            drawn = random.Random(options.seed).sample(drawn, min(options.count, len(drawn)))
        if not passes():
            sys.exit("the tests fail without any fault")
        survivors = 0
        for fault, said in track(drawn, description=names, disable=not sys.stderr.isatty()):
            if isinstance(fault, int):
                environment["PLANTED_FAULT"] = str(fault)
                passed = passes()
            else:
                module, text = fault
                before = module.read_text()
                module.write_text(text)
                passed = passes()
                module.write_text(before)
            if passed:
                survivors += 1
                print(said, flush=True)
    print(f"{len(drawn)} mutants of {names}, {survivors} of them pass")


if __name__ == "__main__":
    main()
