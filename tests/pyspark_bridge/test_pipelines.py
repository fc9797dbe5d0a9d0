"""A join in a declarative pipeline, run by Spark's own command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark.pipelines", reason="declarative pipelines need Spark 4.1")

SPECIFICATION = """\
name: joins
storage: file://{folder}/storage
libraries:
  - glob:
      include: flows/**
configuration:
  spark.sql.shuffle.partitions: "1"
"""
#: Otherwise the server takes port 15002, which another one may have.
ANY_PORT = {"SPARK_TESTING": "1"}
FLOWS = """\
from pyspark import pipelines
from pyspark.sql import SparkSession

from muntin import Band, Within
from muntin.spark import window_join

spark = SparkSession.active()
left, right = (
    spark.readStream.schema("id long, price long, at timestamp").parquet(f"{folder}/{{side}}")
    .withWatermark("at", "5 seconds")
    for side in ("left", "right")
)
within = Within("at", "at", "-5 seconds", "5 seconds")
joined = window_join(left, right, on=Band("price", "price", -1, 1), within=within, daemon="{address}", state=None)


@pipelines.table
def matches():
    return joined
"""


@pytest.mark.full
def test_at_module_level(daemon: Any, tmp_path: Path) -> None:
    import pyspark

    from muntin.pyspark_bridge import ensure_java

    ensure_java()
    start = 1_704_067_200_000_000
    stamps = pa.array([start + second * 1_000_000 for second in range(20)], pa.timestamp("us", tz="UTC"))
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        pq.write_table(pa.table({"id": range(20), "price": range(20), "at": stamps}), tmp_path / side / "rows.parquet")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "joins.py").write_text(FLOWS.format(folder=tmp_path, address=daemon.address))
    (tmp_path / "spark-pipeline.yml").write_text(SPECIFICATION.format(folder=tmp_path))
    program = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [str(program), "run", "--spec", str(tmp_path / "spark-pipeline.yml")],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(paths), **ANY_PORT},
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    files = (tmp_path / "spark-warehouse" / "matches").glob("*.parquet")
    found = pa.concat_tables(pq.read_table(file) for file in files)
    pairs = sorted(zip(found["id"].to_pylist(), found["id_right"].to_pylist(), strict=True))
    assert pairs == [(a, b) for a in range(20) for b in range(20) if abs(a - b) <= 1]
