"""Checks the Python that Spark's workers run on."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from muntin.host.errors import MuntinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class WorkerPythonError(MuntinError, RuntimeError):
    """Spark's Python workers run on an interpreter that cannot run the join."""


def check_worker_python(spark: SparkSession) -> None:
    """Raise `WorkerPythonError` where a local session's workers cannot import what the join needs.

    Only classic sessions in local mode are checked: elsewhere the workers' machine cannot be seen from here,
    and the error comes from the worker, with the same advice.
    """
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return
    python = shutil.which(context.pythonExec) or context.pythonExec
    if python != sys.executable:
        _check(python, f"{sys.version_info.major}.{sys.version_info.minor}")


@functools.cache
def _check(python: str, version: str) -> None:
    script = (
        "import sys; v='%d.%d' % sys.version_info[:2]\n"
        f"assert v == '{version}', f'it is Python {{v}}, and this process is {version}'\n"
        "import numpy, pandas, pyarrow"
    )
    try:
        tried = subprocess.run(
            [python, "-c", script],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        problem = tried.stderr.strip().splitlines()[-1] if tried.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        raise WorkerPythonError(
            f"Spark's Python workers run on {python}, which cannot run the join ({problem}). "
            "Before the session starts set PYSPARK_PYTHON to a Python that has muntin, such as this one: "
            f"{sys.executable}"
        )
