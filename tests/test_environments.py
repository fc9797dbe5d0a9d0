"""Other versions than this environment's: what platforms bring stays as it is, and main cases run on older Sparks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.environments import (
    LOCKS,
    PLATFORMS,
    SPARKS,
    TREE,
    environment,
    own,
    platforms,
    python_of,
    repinned,
    resolve,
    versions,
)


@pytest.mark.parametrize("platform", platforms())
def test_installation_changes_nothing_of_a_platform(platform: str) -> None:
    brought = (PLATFORMS / f"{platform}.txt").read_text()
    pins = {line for line in brought.splitlines() if "==" in line}
    taken = set(resolve(brought, "--extra", "connect", python=python_of(platform)).splitlines())
    assert {"numpy", "pandas", "pyarrow", "pyspark"} <= {line.partition("==")[0] for line in pins & taken}
    assert {line.partition("==")[0] for line in taken - pins}.isdisjoint(line.partition("==")[0] for line in pins)


def test_every_environment_has_its_exact_versions() -> None:
    assert {file.stem for file in LOCKS.glob("*.txt")} == {*SPARKS, *platforms()}
    assert "pyspark==3.5.4\n" in versions("3.5.4")
    with pytest.raises(ValueError, match=r"there is no environment '3.4.1': use a release of Spark, such as 3.5.4"):
        versions("3.4.1")


def test_other_pythons_and_versions_of_packages() -> None:
    for name, pins, python, due in (
        ("newest", [], "3.13", {"pandas==2.3.3"}),
        ("newest", ["pandas==2.2.0", "numpy==1.23.5", "pyarrow==18.0.0"], "3.11", {"pandas==2.2.0", "numpy==1.23.5"}),
        ("3.5", [], "3.12", {"pyspark==3.5.7"}),
    ):
        found = repinned(name, pins, python).splitlines()
        assert due <= set(found)
        # PySpark 3.5 imports distutils, which Python has no more.
        assert any(line.startswith("setuptools==") for line in found) == (name == "3.5")


@pytest.mark.long
@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="PySpark 3.5, and what Databricks 15.4 brings, go to Python 3.11"
)
@pytest.mark.parametrize("name", ["databricks-15.4", pytest.param("spark-4.0", marks=pytest.mark.full)])
def test_main_cases_on_an_older_spark(name: str) -> None:
    """`make test-spark` runs all of them on any version."""
    python = environment(name)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "main", "tests/pyspark_bridge"]
    done = subprocess.run(command, cwd=TREE, env=own(python), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2000:]
    assert " passed" in done.stdout.splitlines()[-1]
