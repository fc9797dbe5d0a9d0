"""Spark Connect: the same join through a client that has no JVM at hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio")

SCRIPT = Path(__file__).with_name("connect_script.py")


@pytest.mark.long
def test_connect(seed, tmp_path):
    """In a process of its own: a process holds a classic session or a Connect one, not both."""
    from muntin.pyspark_bridge import ensure_java

    ensure_java()
    environment = {
        **os.environ,
        "MUNTIN_TEST_CONNECT": "1",
        "SPARK_TESTING": "1",  # any port for the server, not 15002, which another one may have
        "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")])),
    }
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), str(seed)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    assert "all checks passed" in run.stdout
