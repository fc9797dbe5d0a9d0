"""How Muntin is installed: from the wheel, from the source archive, and in place; beside a user's own modules that have
the names of its folders; and with the lowest versions of what it depends on."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

TREE = Path(__file__).parents[1]
FOLDERS = ("contract", "host", "hw", "pyspark_bridge", "sim")
#: The README's join in one process, on rows whose pairs are plain to see; then the same through a daemon, a process of
#: its own.
EXAMPLE = """
import sys
import pyarrow as pa
import muntin
from muntin import Band, JoinSpec, Rows, WindowJoin
from muntin.host.daemon import start_private
from muntin.host.daemon.client import DaemonClient
from muntin.host.native import isa

left, right = pa.table({"limit": [10, 20, 30]}), pa.table({"price": [4, 5, 26, 100]})
spec = dict(on=Band("limit", "price", low=-5, high=5), left=Rows(1_000_000), right=Rows(250_000))

def pairs(table):
    return sorted(zip(table["limit"].to_pylist(), table["price"].to_pylist()))

with WindowJoin(**spec) as join:
    assert pairs(join.process(left, right)) == [(10, 5), (30, 26)]
with start_private("cpu") as daemon, DaemonClient(daemon.address) as client:
    assert client.ping()
assert not {name.partition(".")[0] for name in sys.modules} & {"contract", "host", "hw", "sim", "pyspark_bridge"}
assert not [name for name in sys.modules if name.startswith(("muntin.hw", "muntin.sim", "muntin.pyspark_bridge"))]
print(muntin.__file__, isa())
"""
SPARK = """
import pyarrow as pa
from muntin.spark import ensure_java, window_join
ensure_java()
from pyspark.sql import SparkSession

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    left = spark.createDataFrame([(10,), (30,)], "limit long")
    right = spark.createDataFrame([(5,), (26,)], "price long")
    rows = window_join(left, right, on="price BETWEEN limit - 5 AND limit + 5").collect()
    assert sorted(map(tuple, rows)) == [(10, 5), (30, 26)], rows
"""


def run(*command: str | Path, cwd: Path = TREE, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-c", f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})")
    (archive,) = folder.glob("muntin-*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """Built of the source archive, as ``pip install`` of it does: with a compiler, and no make. With ccache it takes
    what was compiled for this environment."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", sdist.parent, sdist)
    (wheel,) = sdist.parent.glob("muntin-*.whl")
    return wheel


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A user's folder, with modules of the names of our folders."""
    for name in FOLDERS:
        module = tmp_path / "user" / (f"{name}.py" if name != "sim" else "sim/__init__.py")
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(f"raise ImportError('this is the user\\'s own {name}')\n")
    return tmp_path / "user"


def try_out(python: Path, beside: Path, path: str, spark: bool = True) -> str:
    """Runs the examples as scripts of a folder that has the user's modules. Returns what the first one printed."""
    for name, text in (("example", EXAMPLE), ("in_spark", SPARK)):
        (beside / f"{name}.py").write_text(text)
    assert run(python.parent / "muntin", "--version", cwd=beside, PATH=path, PYTHONPATH="").startswith("muntin ")
    if spark:
        run(python, "in_spark.py", cwd=beside, PYTHONPATH="", PYSPARK_PYTHON=str(python))
    return run(python, "example.py", cwd=beside, PATH=path, PYTHONPATH="")


def test_source_archive_holds_each_file_once(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}
    links = {name for name, member in members.items() if member.issym()}
    assert links == {f"muntin/{folder}" for folder in FOLDERS}
    assert not [name for name in members if name.startswith(tuple(f"{link}/" for link in links))]
    assert {"host/join/window_join.py", "host/native/CMakeLists.txt", "pyproject.toml"} <= members.keys()


@pytest.mark.long
def test_wheel_holds_one_package(wheel: Path) -> None:
    with ZipFile(wheel) as files:
        names = set(files.namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"muntin"}
    assert {"muntin/host/native/_core.pyi", "muntin/host/devices/kernels/runs.cl", "muntin/__init__.pyi"} <= names
    assert {f"muntin/{folder}/__init__.py" for folder in FOLDERS} <= names
    native = [Path(name) for name in names if name.startswith("muntin/host/native/")]
    assert sum(name.suffix == ".so" for name in native) == 1
    assert not [name for name in native if name.suffix in (".cpp", ".hpp", ".cmake", ".txt")]


@pytest.mark.long
def test_wheel_runs_where_no_compiler_is(wheel: Path, beside: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin/python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    # Its dependencies are this environment's: as a plain folder on the path, whose .pth files, an editable install's
    # among them, are not read.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("platlib") + "\n")
    printed = try_out(python, beside, str(python.parent)).split()
    assert Path(printed[0]).is_relative_to(site)
    assert printed[1] in ("v2", "v3", "v4", "plain")


def test_editable_install(beside: Path) -> None:
    """This environment's own, as `make` makes it, in which all tests of Spark run."""
    if os.environ.get("PYTHONPATH"):
        pytest.skip("PYTHONPATH names a tree, which goes before the installed one")
    assert Path(try_out(Path(sys.executable), beside, os.environ["PATH"], spark=False).split()[0]).is_relative_to(TREE)


@pytest.mark.long
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the lowest NumPy has wheels for Python 3.11 alone")
def test_lowest_versions_of_dependencies(wheel: Path, tmp_path: Path) -> None:
    """The lowest versions that pyproject.toml names carry the operator, its conformance and the command."""
    environment = tmp_path / "environment"
    python = environment / "bin/python"
    run(sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, environment)
    install = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python)
    lowest = (*install, "--resolution", "lowest-direct", "-r", TREE / "pyproject.toml")
    run(*lowest)
    run(*install, "--no-deps", wheel)
    run(
        python, "-c", EXAMPLE.partition("with start_private")[0].replace("from muntin.host.daemon", "# "), PYTHONPATH=""
    )
    refused = subprocess.run([environment / "bin/muntin", "devices"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (
        1,
        "error: the muntin command needs click: pip install 'muntin[cli]'\n",
    )
    run(*lowest, "--extra", "daemon")
    lowest_versions = tmp_path / "lowest.txt"
    frozen = run(sys.executable, "-m", "uv", "pip", "freeze", "--quiet", "--python", python).splitlines()
    lowest_versions.write_text("\n".join(line for line in frozen if "==" in line))
    tools = ("pytest", "pytest-timeout", "hypothesis", "duckdb", "pandas")
    run(*install, "--constraint", lowest_versions, *tools)  # a newer NumPy than the lowest pyarrow runs with otherwise
    tests = ["tests/conformance/test_how.py", "tests/host/test_spec.py"]
    run(python, "-m", "pytest", "-q", *tests, "-k", "cpu or spec", PYTHONPATH=str(TREE))
    assert run(environment / "bin/muntin", "devices", cwd=tmp_path, PYTHONPATH="").startswith("cpu")
