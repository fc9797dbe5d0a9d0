"""Who imports whom, by the text of each module: also in functions, for types, and by a constant name for importlib."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).parents[2]
FOLDERS = ("contract", "host", "hw", "sim", "pyspark_bridge", "bench")

#: The folders at the top that each of them may import.
ABOVE = {
    "contract": set(),
    "hw": {"contract"},
    "sim": {"contract", "hw"},
    "host": {"contract"},
    "pyspark_bridge": {"host"},
    "bench": {"contract", "host", "hw", "sim", "pyspark_bridge"},
}
#: The parts of host: each imports those of its own row and of the rows before it.
ROWS = (
    (
        *("host.errors", "host.sides", "host.arrow_versions", "host.progress", "host.tracing", "host.native"),
        *("host.arrays", "host.public", "host.frames", "host.memory"),
    ),
    (
        *("host.keys", "host.windows", "host.predicates", "host.engines", "host.index", "host.call"),
        *("host.aggregates", "host.spec", "host.sql", "host.arguments"),
    ),
    ("host.engine", "host.state"),
    ("host.devices", "host.fpga"),
    ("host.join", "host.tables_sql"),
    ("host",),
    ("host.files", "host.selftest", "host.daemon", "host.kafka"),
    ("host.cli",),
)


def modules() -> dict[str, Path]:
    """The modules of the tree by name, without ``muntin.``; a package by its folder's name."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((TREE / folder).rglob("*.py")):
            name = ".".join(path.relative_to(TREE).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def _names(tree: ast.Module, package: str, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: -node.level + 1 or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]  # of what importlib is given: "muntin.sim.board", "hw.kernel:Kernel"
            if "." in name and name.removeprefix("muntin.") in known:
                yield name


def imports() -> dict[str, set[str]]:
    """The modules of the tree that each of them imports."""
    known = modules()
    found: dict[str, set[str]] = {}
    for module, path in known.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found[module] = set()
        for imported in _names(ast.parse(path.read_text()), f"muntin.{package}", known):
            name = imported.removeprefix("muntin.")
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name and name != module:
                found[module].add(name)
    return found


def _at_the_top(statements: list[ast.stmt]) -> Iterator[str]:
    """The names that these statements of a module give to it."""
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        else:
            yield from (name.id for name in ast.walk(node) if isinstance(name, ast.Name))
            for block in ("body", "orelse", "finalbody"):
                yield from _at_the_top(getattr(node, block, []))
            for handler in getattr(node, "handlers", []):
                yield from _at_the_top(handler.body)


def unknown_names() -> list[str]:
    """Names that modules, benches and tests import from a module of the tree that has none of that name."""
    known = modules()
    trees = {module: ast.parse(path.read_text()) for module, path in known.items()}
    has = {module: set(_at_the_top(tree.body)) for module, tree in trees.items()}
    for path in (TREE / "tests").rglob("*.py"):
        trees[".".join(path.relative_to(TREE).with_suffix("").parts)] = ast.parse(path.read_text())
    found = []
    for importing, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                module = node.module.removeprefix("muntin.")
                names = has.get(module, set())
                if module not in known or "__getattr__" in names:
                    continue
                missing = [alias.name for alias in node.names if alias.name not in names]
                found += [f"{importing}: {name} of {module}" for name in missing if f"{module}.{name}" not in known]
    return found


def part(module: str) -> str:
    """The part that a module belongs to: one of host, or a folder at the top."""
    folder, _, rest = module.partition(".")
    return f"host.{rest.partition('.')[0]}" if folder == "host" and rest else folder


def breaches(found: dict[str, set[str]]) -> list[str]:
    """The imports that `ABOVE` and `ROWS` do not allow, as ``"module -> module"``."""
    row = {name: at for at, names in enumerate(ROWS) for name in names}

    def allowed(module: str, other: str) -> bool:
        folder, above = module.partition(".")[0], other.partition(".")[0]
        if folder != above:
            return above in ABOVE[folder]
        return folder != "host" or row[part(module)] >= row[part(other)]

    return sorted(f"{module} -> {other}" for module in found for other in found[module] if not allowed(module, other))


def circles(found: dict[str, set[str]]) -> int:
    """How many imports must go until no module imports itself through others, by taking one of each circle found."""
    graph = {module: set(others) for module, others in found.items()}
    count = 0
    while True:
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            later, earlier = error.args[1][:2]
            graph[earlier].discard(later)
            count += 1
        else:
            return count
