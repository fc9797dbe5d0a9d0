"""One Spark session, one daemon and small file streams for the tests of the bridge."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before pyspark is imported: workers run on this interpreter, and Spark's reverse look-up of the host name
# is not needed.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


#: Whether these tests run on Spark Connect, as `test_connect.py` has some do: in a process of their own.
CONNECT = os.environ.get("MUNTIN_TEST_CONNECT") == "1"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A local session with two cores, in which a task may fail once before its job does."""
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    from muntin.pyspark_bridge import ensure_java
    from muntin.pyspark_bridge.spark_versions import spark_version

    ensure_java()
    builder = SparkSession.builder
    session = (
        (builder.remote("local[2]") if CONNECT else builder.master("local[2,2]"))
        .appName("muntin tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.python.daemon.module", "tests.pyspark_bridge.worker_daemon")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.extraJavaOptions", "-Dlog4j2.level=ERROR -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    if not CONNECT:
        session.sparkContext.setLogLevel("OFF")
    if spark_version() < (4, 0):  # it takes no Arrow table
        plain = session.createDataFrame
        session.createDataFrame = lambda data, *rest: (
            plain(data.to_pylist(), from_arrow_schema(data.schema))
            if isinstance(data, pa.Table)
            else plain(data, *rest)
        )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def daemon() -> Iterator[object]:
    """A daemon that outlives the queries of the tests, which stay open, on the NumPy device."""
    from muntin.host.daemon import start_private

    with start_private("numpy", max_queries=1000) as running:
        yield running


@pytest.fixture
def runner(spark: object, tmp_path: Path) -> object:
    """Runs streaming queries; see `Runner`."""
    from tests.pyspark_bridge.runner import Runner

    running = Runner(spark, tmp_path)
    yield running
    running.stop()
