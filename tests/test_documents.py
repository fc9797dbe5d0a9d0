"""The documents: links lead somewhere, examples run against the public interface, commands and options exist."""

import ast
import contextlib
import importlib
import io
import re
import shlex
from pathlib import Path

import pytest

from muntin.host.cli import main
from tests.pages import run
from tests.test_public_interface import PUBLIC

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
#: Pages whose blocks run one after the other; those of spark.md do in tests/pyspark_bridge/test_spark_pages.py.
IN_ORDER = ("cookbook.md", "migrating.md", "troubleshooting.md")
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def prose(text: str) -> str:
    """A document without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The fragments that a document's headings have, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def examples(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)


def test_the_front_page_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@each_document
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text())):
        if target.startswith("https://"):
            continue
        name, _, fragment = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), f"{path.name} links to {target}"
        assert not fragment or fragment in anchors(file), f"{path.name} links to {target}"


@each_document
def test_examples_import_what_is_public(path):
    for example in examples(path):
        for node in ast.walk(ast.parse(example)):
            if isinstance(node, ast.Import):
                assert node.names[0].name in ("pyarrow", "pandas", "polars", "duckdb"), ast.unparse(node)
            if isinstance(node, ast.ImportFrom) and node.module not in ("pathlib", "tempfile", "pyspark.sql"):
                assert node.module in PUBLIC, ast.unparse(node)
                assert {alias.name for alias in node.names} <= set(importlib.import_module(node.module).__all__)


def test_examples_without_spark_run():
    ran = 0
    for path in DOCUMENTS:
        for example in examples(path):
            # Those of spark.md run in tests/pyspark_bridge/test_spark_pages.py.
            if "muntin.spark" not in example and path.name not in ("spark.md", *IN_ORDER):
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(example, path.name, "exec"), names := {})
                ran += 1
                if path.name == "README.md":
                    assert out.getvalue().count("'limit'") == out.getvalue().count("'price'") == 3
                elif "rest" in names:
                    assert (names["early"].num_rows, names["rest"]["order"].to_pylist()) == (0, [1, 3])
                elif "engine" in names:
                    assert names["join"].spec.order == names["Inner"](every=8)
                elif "on" in names:
                    assert len(names["on"].parts) == 3
                elif "first" in names:
                    assert (names["first"].num_rows, names["second"].num_rows) == (3, 3)
    assert ran >= 7


@pytest.mark.parametrize("name", IN_ORDER)
def test_blocks_run_and_print_what_the_page_says(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(ROOT / "docs" / name, capsys, {"__name__": "__main__"})


@each_document
def test_commands_and_options_exist(path):
    for line in re.findall(r"^    (muntin .+)$", path.read_text(), re.MULTILINE):
        words = shlex.split(line, comments=True)[1:]
        command = main.commands[words[0]]
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        given = {word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)}
        assert given <= known, f"{path.name}: {line}"


@each_document
def test_make_targets_exist(path):
    rules = "".join(file.read_text() for file in (ROOT / "Makefile", ROOT / "sim" / "sim.mk"))
    targets = set(re.findall(r"^(\.?[a-z-]+):", rules, re.MULTILINE))
    for target in re.findall(r"(?:^    |`)make (\.?[a-z-]+)", path.read_text(), re.MULTILINE):
        assert target in targets, f"{path.name}: make {target}"


def test_each_error_is_in_the_table_of_errors():
    table = (ROOT / "docs" / "troubleshooting.md").read_text().partition("## Errors")[2]
    assert set(re.findall(r"^class (\w+Error)\(", (ROOT / "host" / "errors.py").read_text(), re.MULTILINE)) <= set(
        re.findall(r"`(\w+)`", table)
    )
