"""The documents: links lead somewhere, examples run against the public interface, commands and options exist."""

import ast
import importlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from muntin.host.cli import main
from tests.pages import run
from tests.test_public_interface import PUBLIC

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
#: Those whose blocks of Python run; the others do in tests/pyspark_bridge/test_spark_pages.py and in tests/host/kafka.
RUN = [path for path in DOCUMENTS if path.name not in ("spark.md", "kafka.md") and "\n```python\n" in path.read_text()]
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
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


@each_document
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text())):
        if target.startswith("https://"):
            continue
        name, _, fragment = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), f"{path.name} links to {target}"
        assert not fragment or fragment in anchors(file), f"{path.name} links to {target}"


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if path.name != "adding.md"], ids=lambda path: path.name
)  # which is for those who change it
def test_examples_import_what_is_public(path):
    for example in examples(path):
        for node in ast.walk(ast.parse(example)):
            if isinstance(node, ast.Import):
                assert node.names[0].name in ("pyarrow", "pandas", "polars", "duckdb"), ast.unparse(node)
            if isinstance(node, ast.ImportFrom) and node.module not in (
                "pathlib", "tempfile", "pyspark.sql", "confluent_kafka",
            ):  # fmt: skip
                assert node.module in PUBLIC, ast.unparse(node)
                assert {alias.name for alias in node.names} <= set(importlib.import_module(node.module).__all__)


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.name)
def test_blocks_run_and_print_what_the_page_says(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(path, capsys, {"__name__": "__main__"}) == path.read_text().count("\n```text\n")


def paragraphs(text: str) -> list[str]:
    """The paragraphs and items of lists of a document, without code, tables, headings and comments."""
    items = re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. ))", prose(text))
    return [each for each in items if not re.match(r"\n*(?: {4}\S|[|#<])", each)]


@each_document
def test_paragraphs_are_short(path):
    """What is longer is a list."""
    long = [each.strip()[:60] for each in paragraphs(path.read_text()) if len(each.split()) > 90]
    assert not long


@each_document
def test_commands_and_options_exist(path):
    for line in re.findall(r"^    (muntin .+)$", path.read_text(), re.MULTILINE):
        words = shlex.split(line, comments=True)[1:]
        command = main.get_command(None, words[0])
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        given = {word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)}
        assert given <= known, f"{path.name}: {line}"


@each_document
def test_make_targets_exist(path):
    rules = "".join(file.read_text() for file in (ROOT / "Makefile", ROOT / "sim" / "sim.mk"))
    targets = set(re.findall(r"^(\.?[a-z-]+):", rules, re.MULTILINE))
    for target in re.findall(r"(?:^    |`)make (\.?[a-z-]+)", path.read_text(), re.MULTILINE):
        assert target in targets, f"{path.name}: make {target}"


def test_each_document_is_in_the_site():
    """In its menu, under its name there; `reference.md` is made from the docstrings."""
    listed = re.findall(r"^ +- (?:\w+: )?([\w.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    above = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
    assert sorted(listed) == sorted([*(above.get(path.name, path.name) for path in DOCUMENTS), "reference.md"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site as `make docs` builds it, with links and anchors checked."""
    pytest.importorskip("mkdocs", reason="the extra docs brings it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


#: What a page would load from another host.
ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*")


@pytest.mark.full
def test_the_site_has_all_pages_and_names_and_asks_no_other_host(site):
    pages = {path.name: path.read_text() for path in site.glob("*.html")}
    assert len(pages) > len(DOCUMENTS)
    # A list that the site's Markdown takes for the lines of a paragraph.
    listed = re.compile(r"^(?:- |\d+\. )", re.MULTILINE)
    for name, page in pages.items():
        assert not ELSEWHERE.findall(page), name
        found = [each for each in re.findall(r"<p>(.*?)</p>", page, re.DOTALL) if listed.search(each)]
        assert not found or name == "reference.html", name
    for module in PUBLIC:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            if not isinstance(getattr(loaded, name), ModuleType):
                assert f'id="{module}.{name}"' in pages["reference.html"], (module, name)


@pytest.mark.full
@pytest.mark.parametrize("name", ["index", "spark", "reference"])
def test_pages_run_in_a_browser(site, name):
    """Their scripts fail nowhere, and load nothing from other hosts."""
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("no chromium here (Debian: apt install chromium)")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    shown = subprocess.run([chromium, *options, offline, f"file://{site}/{name}.html"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "CONSOLE" not in shown.stderr, shown.stderr
    assert "md-nav__link--active" in shown.stdout
    assert not ELSEWHERE.findall(shown.stdout)


def test_each_error_is_in_the_table_of_errors():
    table = (ROOT / "docs" / "troubleshooting.md").read_text().partition("## Errors")[2]
    assert set(re.findall(r"^class (\w+Error)\(", (ROOT / "host" / "errors.py").read_text(), re.MULTILINE)) <= set(
        re.findall(r"`(\w+)`", table)
    )
