"""``make house``: the tree in numbers. ``make walk``: the modules that a call crosses, and the moves between them.
``make drawings``: the drawings of docs/design.md, from the code."""

from __future__ import annotations

import ast
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType

import pyarrow as pa

from muntin import Band, Partitions, Rows, WindowJoin
from tests.house.imports import ROWS, TREE, breaches, circles, imports, modules

#: What planning code alone should ask for; see `kinds_asked_for`.
KINDS = ("Engine", "Device", "Board", "Parameters", "AsOf", "Shared", "SplitJoin", "Steps")
JOIN = {"on": Band("limit", "price", low=-5, high=5), "left": Rows(1000), "right": Rows(1000)}


def kinds_asked_for(tree: ast.Module) -> int:
    """How many `isinstance` ask for a class of an engine, a device, a board or a design."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance")
    asked = (re.sub(r"\w+Error\b", "", ast.unparse(call.args[1])) for call in calls)
    return sum(any(kind in classes for kind in KINDS) for classes in asked)


def house() -> Iterator[tuple[str, object]]:
    files = {name: path.read_text() for name, path in modules().items()}
    cpp = [path.read_text() for path in (TREE / "host/native").rglob("*.?pp")]
    lines = {name: text.count("\n") for name, text in files.items()}
    found = imports()
    broken = breaches(found)
    yield "lines, C++ included", sum(lines.values()) + sum(text.count("\n") for text in cpp)
    yield "files", len(files) + len(cpp)
    yield (
        "Python files under 50 lines, but for data",
        sum(count < 50 and ".data" not in name for name, count in lines.items()),
    )
    yield "files above 700 lines", sum(count > 700 for count in [*lines.values(), *(text.count("\n") for text in cpp)])
    yield "imports against the order of tests/house/imports.py", len(broken)
    for folder, other in (("host", "hw"), ("host", "sim"), ("sim", "host")):
        yield f"of them {folder} -> {other}", sum(f"-> {other}." in line for line in broken if line.startswith(folder))
    yield "imports to cut until there is no circle", circles(found)
    asked = sum(kinds_asked_for(ast.parse(text)) for name, text in files.items() if name.startswith("host"))
    yield "isinstance on engines, devices, boards, designs", asked


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The modules of the tree whose functions are entered or returned to meanwhile, in order, in all threads."""
    entered: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            module = frame.f_globals.get("__name__", "")
            if module.startswith("muntin."):
                entered.append(module)

    threading.setprofile_all_threads(profile) if sys.version_info >= (3, 12) else threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def walk() -> Iterator[tuple[str, object]]:
    left, right = pa.table({"limit": [10, 20, 30]}), pa.table({"price": [4, 5, 26, 100]})
    with tempfile.TemporaryDirectory() as folder:
        for name, options in {
            "cpu": {},
            "cpu, three partitions by ranges": {"partitions": Partitions(3, "ranges")},
            "cpu, with state": {"state": folder},
            "sim:bisort-model": {"device": "sim:bisort-model"},
        }.items():
            with WindowJoin(**JOIN, **options) as join:
                join.process(left, right)  # the first call imports and compiles
                with recorded() as entered:
                    join.process(left, right)
            moves = sum(module != after for module, after in pairwise(entered))
            yield f"a call, {name}: modules; moves between them", f"{len(set(entered))}; {moves}"


def way_of_a_batch() -> str:
    """The modules that a call on one thread of ``cpu`` enters, each below the one that first calls it."""
    left, right = pa.table({"limit": [10, 20, 30]}), pa.table({"price": [4, 5, 26, 100]})
    called: dict[str, tuple[str, str]] = {}  # module: the one that calls it first, and the function

    def ours(frame: FrameType | None) -> str:
        while frame is not None and not frame.f_globals.get("__name__", "").startswith("muntin."):
            frame = frame.f_back
        return "" if frame is None else frame.f_globals["__name__"]

    def profile(frame: FrameType, event: str, _: object) -> None:
        module, caller = frame.f_globals.get("__name__", ""), ours(frame.f_back)
        if (
            event == "call"
            and module.startswith("muntin.")
            and module != caller
            and "<" not in frame.f_code.co_qualname
        ):
            called.setdefault(module, (caller, frame.f_code.co_qualname))

    with WindowJoin(**JOIN, device="cpu:threads=1") as join:
        join.process(left, right)
        sys.setprofile(profile)
        join.process(left, right)
        sys.setprofile(None)

    def below(module: str, depth: int) -> Iterator[tuple[str, str]]:
        for name, (caller, function) in called.items():
            if caller == module:
                yield "  " * depth + name.removeprefix("muntin.host."), function
                yield from below(name, depth + 1)

    return columns(list(below("", 0)))


def packages() -> str:
    """The parts of the tree in the order of their imports: each imports those above it alone."""
    rows = [("contract",), ("hw",), ("sim",), *ROWS, ("pyspark_bridge",), ("bench",)]
    found = modules()
    lines = [(name, sentence(found[name].read_text())) for row in rows for name in row if name in found]
    return columns(lines)


def sentence(text: str) -> str:
    """The first sentence of a module's docstring."""
    whole = " ".join((ast.get_docstring(ast.parse(text)) or "").split())
    return re.split(r"(?<=[a-z)])[.:;] ", whole)[0].rstrip(".")


def columns(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows) + 2
    return "".join(f"    {f'{name:{width}}{text}'.rstrip()}\n" for name, text in rows)


def draw() -> None:
    """Write the drawings into docs/design.md, each between its two marks."""
    page = TREE / "docs/design.md"
    page.write_text(drawn(page.read_text()))


def drawn(page: str) -> str:
    for drawing in (way_of_a_batch, packages):
        mark = drawing.__name__.replace("_", " ")
        begin, end = f"<!-- {mark}: make drawings -->\n\n", f"\n<!-- end of {mark} -->"
        before, after = page.split(begin)[0], page.split(end)[1]
        page = before + begin + drawing() + end + after
    return page


if __name__ == "__main__":
    if sys.argv[1] == "draw":
        draw()
    else:
        for fact, value in {"house": house, "walk": walk}[sys.argv[1]]():
            print(f"{value!s:>10}  {fact}")
