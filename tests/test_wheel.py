"""The wheel: what `make wheel` builds, but for this machine alone, in an environment that has no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

TREE = Path(__file__).parents[1]
#: The README's join in one process, on rows whose pairs are plain to see.
EXAMPLE = """
import sys
import pyarrow as pa
from muntin.host import Band, Rows, WindowJoin
from muntin.host.native import isa
from muntin import host

join = WindowJoin(on=Band("limit", "price", -5, 5), left=Rows(1_000_000), right=Rows(250_000), device="numpy")
table = join.process(pa.table({"limit": [10, 20, 30]}), pa.table({"price": [4, 5, 26, 100]}))
pairs = sorted(zip(table["limit"].to_pylist(), table["price"].to_pylist()))
assert pairs == [(10, 5), (30, 26)], pairs
join.close()
print(host.__file__, isa())
"""


def _run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=TREE, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_runs_the_readme_example_where_no_compiler_is(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ".")
    (wheel,) = tmp_path.glob("muntin-*.whl")

    with ZipFile(wheel) as files:
        names = set(files.namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {"host", "pyspark_bridge", "hw", "sim"} <= tops
    assert not {"tests", "bench", "docs", "build"} & tops
    assert {"host/native/_core.pyi", "host/devices/kernels/runs.cl"} <= names
    native = [Path(name) for name in names if name.startswith("host/native/")]
    assert sum(name.suffix == ".so" for name in native) == 1
    assert not [name for name in native if name.suffix in (".cpp", ".hpp", ".cmake", ".txt")]

    environment = tmp_path / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin/python"
    _run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    # Its dependencies are this environment's: as a plain folder on the path, whose .pth files, an editable install's
    # among them, are not read.
    site = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("platlib") + "\n")
    printed = _run(python, "-P", "-c", EXAMPLE, PATH=str(python.parent), PYTHONPATH="").split()
    assert Path(printed[0]).is_relative_to(site)
    assert printed[1] in ("v2", "v3", "v4", "plain")
