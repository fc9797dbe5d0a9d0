"""The pages for Spark's users: blocks of Python run in order, as a reader pastes them, and print what stands below;
what other blocks name exists."""

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from muntin.host.cli import COMMANDS, main
from tests.pages import blocks, run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / name for name in ("spark.md", "platforms.md")]
#: What the page sets in its session, which is that of other tests too.
SET = ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone")


@pytest.fixture
def session(spark):
    """The session of the tests, and after the test again as it was."""
    before = {name: spark.conf.get(name) for name in SET}
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)
    for name in ("orders", "offers", "pairs"):
        spark.catalog.dropTempView(name)


def test_blocks_run_and_print_what_the_page_says(session, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    try:
        shown = run(PAGES[0], capsys, names, spark=True)
    finally:
        if "listener" in names:
            names["listener"].stop()
    assert shown >= 5
    # The session has the package of neither: all but the source and the sinks has run, and these are reached.
    for use, what in (("from_kafka", "bids"), ("to_kafka", names["rows"]), ("to_delta", names["rows"])):
        with pytest.raises(Exception, match=r"(?i)find (the )?data source: (kafka|delta)"):
            names[use](what)


def extras():
    """The packages of each extra, by name."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {extra: [re.match(r"[\w-]+(\[\w+\])?", package)[0] for package in told[extra]] for extra in told}
    named["daemon"] = [*named["cli"], *(package for package in named["daemon"] if package != "muntin[cli]")]
    return named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_other_blocks_name_what_exists(page):
    read = 0
    for line, language, text in blocks(page):
        place = f"{page.name}:{line}"
        if language == "bash":
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        elif language == "json":
            value = json.loads(text)
            if "--additional-python-modules" in value:
                _wheel, *packages = value["--additional-python-modules"].split(",")
                assert packages == [*extras()["daemon"], *extras()["object-store"]], place
        elif language == "yaml":
            yaml = pytest.importorskip("yaml", reason="moto brings PyYAML")
            pod = list(yaml.safe_load_all(text))[1]["spec"]["template"]["spec"]
            program, command, *options = pod["containers"][0]["command"]
            assert Path(program).name == "muntin"
            assert (
                main.get_command(None, command).make_context(command, options).params["grace"]
                < pod["terminationGracePeriodSeconds"]
            )
        read += language not in ("python", "text")
    assert read
    for named in re.findall(r"(?:muntin|whl\))\[([\w,-]+)\]", page.read_text()):
        assert set(named.split(",")) <= set(extras()), page.name
    for packages in re.findall(r"`(click [\w -]+)`", page.read_text()):
        assert packages.split() == extras()["daemon"], page.name
    for words in map(shlex.split, re.findall(r"`(muntin .+?)`", page.read_text())):
        assert words[1] in COMMANDS, (page.name, words)
