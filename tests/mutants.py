"""Do the tests notice? Small faults planted one at a time into a module, against the tests that should fail by them.

``python -m tests.mutants host/join/sequencer.py tests/conformance/test_sequence.py -k cpu``: each mutant changes
one comparison, sum, constant, condition, order of arguments or statement, drawn by ``--seed``. Those that all tests
pass are printed as ``number: file:line  before  ->  after``: each asks for a test, or is dead code, or means the same.
Those that end a run otherwise than by a test that fails are printed with what it said. ``--only`` runs some of the
numbers again.

``python -m tests.mutants host/native/core/memory.cpp,host/native/index/llat.hpp tests/native/test_engine.py`` does so
in C++: all faults of a round are one build.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import hypothesis  # noqa: F401 - what most tests import, in each process already
import numpy  # noqa: F401
import pyarrow.compute  # noqa: F401
import pytest
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
SYMMETRIC = {"min", "max", "np.minimum", "np.maximum"}


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
    elif isinstance(mutant, ast.Call) and len(mutant.args) > 1 and ast.unparse(mutant.func) not in SYMMETRIC:
        mutant.args[:2] = mutant.args[1::-1]
        yield mutant
    if can_be_left_out(node):
        yield ast.copy_location(ast.Pass(), node)


def can_be_left_out(node: ast.AST) -> bool:
    """Whether a node is a statement whose names are all there without it."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))


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


class Tests:
    """The tests of a tree, run in a process of its own each time, which has imported what the tree does not change.

    Parameters
    ----------
    tree : Path
    arguments : list of str
        Of pytest.
    seconds : float
        A run that takes longer has failed.
    gigabytes : float
        A process that asks for more data fails: by a fault that has a list grow, the machine would be out of memory.
    """

    def __init__(self, tree: Path, arguments: list[str], seconds: float, gigabytes: float = 4):
        self._tree, self._arguments, self._seconds, self._gigabytes = tree, arguments, seconds, gigabytes
        # So that a process compiles the module that was changed, and no other.
        compiled = ["-m", "compileall", "-q", "-x", "build|node_modules", "--invalidation-mode", "checked-hash", "."]
        subprocess.run([sys.executable, *compiled], cwd=tree, check=True)

    def passes(self, fault: int = 0) -> tuple[bool, str]:
        """Whether all pass; else what ended the run, if that was no test."""
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                self._run(fault, output.fileno())
            ended = self._ended(child)
            output.seek(0)
            said = output.read().decode(errors="replace")
        if ended == pytest.ExitCode.OK or ended == pytest.ExitCode.TESTS_FAILED:
            return ended == pytest.ExitCode.OK, ""
        return False, f"ended with {ended}\n{said[-2000:]}"

    def _ended(self, child: int) -> int | str:
        until = time.monotonic() + self._seconds
        while time.monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return f"more than {self._seconds} s"

    def _run(self, fault: int, output: int) -> None:
        os.setpgid(0, 0)
        # Of data, not of addresses: Java's machine and allocators set far more of those aside than they use.
        resource.setrlimit(resource.RLIMIT_DATA, (int(self._gigabytes * 2**30),) * 2)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(self._tree)
        os.environ |= {"PYTHONPATH": str(self._tree), "PLANTED_FAULT": str(fault)}
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "muntin")]:
            del sys.modules[name]
        sys.path[:] = [str(self._tree), *(path for path in sys.path if Path(path).resolve() != TREE)]
        try:
            code = int(pytest.main(self._arguments))
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            code = -1
        os._exit(code & 0xFF)


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
    parser.add_argument("--gigabytes", type=float, default=4, help="a process that asks for more data fails")
    parser.add_argument(
        "--only", type=lambda text: {int(each) for each in text.split(",")}, help="of those drawn, by their numbers"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "tree"
        shutil.copytree(TREE, copied, symlinks=True, ignore=shutil.ignore_patterns(".git", ".venv", "build", "*.pyc"))
        arguments = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=mutants", *options.tests]
        names = ", ".join(map(str, options.modules))
        if options.modules[0].suffix != ".py":
            drawn: list[tuple[int | tuple[Path, str], str]] = list(
                build(copied, options.modules, options.count, options.seed).items()
            )
        else:
            drawn = [(each, said) for module in options.modules for each, said in mutants(copied, module)]
            drawn = random.Random(options.seed).sample(drawn, min(options.count, len(drawn)))
        numbered = {fault if isinstance(fault, int) else at: (fault, said) for at, (fault, said) in enumerate(drawn, 1)}
        if options.only:
            numbered = {number: each for number, each in numbered.items() if number in options.only}
        tests = Tests(copied, arguments + (["-k", options.k] if options.k else []), options.seconds, options.gigabytes)
        if not (first := tests.passes())[0]:
            sys.exit(f"the tests fail without any fault {first[1]}")
        survivors = 0
        for number, (fault, said) in track(numbered.items(), description=names, disable=not sys.stderr.isatty()):
            if isinstance(fault, int):
                passed, ended = tests.passes(fault)
            else:
                module, text = fault
                before = module.read_text()
                module.write_text(text)
                passed, ended = tests.passes()
                module.write_text(before)
            if passed or ended:
                survivors += passed
                print(f"{number}: {said}", ended, flush=True)
    print(f"{len(numbered)} mutants of {names}, {survivors} of them pass")


if __name__ == "__main__":
    main()
