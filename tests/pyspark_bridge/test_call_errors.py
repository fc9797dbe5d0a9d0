"""What is wrong is said when `window_join` is called, not by a worker later."""

import importlib.util
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import ClassVar

import pandas as pd
import pytest
from pyspark.sql import functions as F

from muntin import AllOf, Band, Partitions, Rows, Within
from muntin.host import errors
from muntin.pyspark_bridge import window_join
from muntin.pyspark_bridge.worker_python import WorkerPythonError, check_worker_python

OPENCL = pytest.mark.skipif(importlib.util.find_spec("pyopencl") is None, reason="needs pyopencl")
GOOD = {"on": Band("k", "k", 0, 1), "left": Rows(9), "right": Rows(9), "sequence": "seq"}


@pytest.fixture(scope="module")
def frame(spark):
    return spark.range(5).select(
        F.col("id").alias("k"),
        F.col("id").alias("seq"),
        F.current_timestamp().alias("ts"),
        F.lit("x").alias("text"),
    )


def _columns():
    """Those of `frame`, of a stream of Spark's kind "rate"."""
    return F.col("value").alias("k"), F.col("value").alias("seq"), F.col("timestamp").alias("ts")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"on": Band("key", "k", 0, 1)}, errors.SchemaError, "left.*key"),
        ({"on": Band("k", "other", 0, 1)}, errors.SchemaError, "right.*other"),
        ({"on": Band("text", "k", 0, 1)}, errors.KeyTypeError, "text"),
        ({"on": Band("ts", "k", 0, 1)}, errors.KeyTypeError, "ts"),
        ({"on": "k = k"}, errors.SqlError, "left.k"),
        ({"on": 3}, errors.PredicateError, "Band"),
        ({"sequence": "nowhere"}, errors.SchemaError, "nowhere"),
        ({"sequence": "text"}, errors.KeyTypeError, "text"),
        ({"left": None, "right": None, "within": "1 minute"}, errors.WindowError, "Within"),
        (
            {"left": None, "right": None, "within": Within("text", "ts", "0 s", "1 s")},
            errors.KeyTypeError,
            "text",
        ),
        ({"right": None}, errors.WindowError, "right"),
        ({"left": "5 minutes"}, errors.WindowError, "Within"),
        ({"within": Within("ts", "ts", "0 s", "1 s")}, errors.WindowError, "either"),
        ({"how": "sideways"}, errors.MuntinError, "sideways"),
        ({"form": "sets"}, errors.PredicateError, "sets"),
        ({"order": "backwards"}, errors.PredicateError, "backwards"),
        ({"index": "stairs"}, errors.WindowError, "stairs"),
        pytest.param({"device": "opencl:no such device"}, errors.DeviceError, "no such device", marks=OPENCL),
        ({"device": "abacus"}, errors.DeviceError, "abacus"),
        ({"device": "numpy", "daemon": "unix:/tmp/x"}, errors.DeviceError, "leave one out"),
        ({"daemon": "unix:/nowhere/daemon.sock"}, errors.ConnectionLostError, "muntin serve"),
        ({"daemon": "http://localhost"}, errors.DaemonError, "http"),
        ({"tls": ("/nowhere/cert.pem", "key.pem")}, errors.DaemonError, "cannot read /nowhere/cert.pem"),
        ({"tls": "off"}, errors.DaemonError, "True, False or the PEM files"),
        ({"tls": False, "daemon": "unix:/tmp/x"}, errors.DaemonError, "leave tls= out"),
        ({"token": "t"}, errors.DaemonError, "named with daemon="),
        ({"tls_ca": "ca.pem"}, errors.DaemonError, "named with daemon="),
        ({"observe": "join"}, errors.UnsupportedError, "observe='join' is for streams"),
        ({"result_watermark": "ts"}, errors.UnsupportedError, "result_watermark='ts' is for streams"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_refused(frame, change, error, message):
    arguments = {**GOOD, **change}
    with pytest.raises(error, match=message):
        window_join(frame, frame, **arguments, state=None)


def test_a_conjunction_with_a_missing_column(frame, daemon):
    with pytest.raises(errors.SchemaError, match="no key column 'kk', of Band"):
        window_join(
            frame,
            frame,
            **{**GOOD, "on": AllOf(Band("k", "k", 0, 1), Band("kk", "seq", 0, 1))},
            daemon=daemon.address,
            state=None,
        )


@OPENCL
def test_window_beyond_the_memory(frame):
    with pytest.raises(errors.CapacityError, match="bytes"):
        window_join(
            frame,
            frame,
            **{**GOOD, "left": Rows(2_000_000_000), "right": Rows(2_000_000_000)},
            device="opencl",
            state=None,
        )


IN_TIME = {"on": GOOD["on"], "within": Within("ts", "ts", "0 s", "1 s")}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"state": "ftp://host/folder"}, errors.StateError, r"ftp://host/folder.*Give a folder.*s3://bucket/prefix"),
        ({"state": "memory:///"}, errors.StateError, "cannot be kept in memory:///"),
        ({"state": "dbfs:/folder"}, errors.StateError, "'dbfs:/folder' is neither.*as in /dbfs/state"),
        ({"state": "file://elsewhere/folder"}, errors.StateError, "no folder of this machine"),
        ({"state": ""}, errors.StateError, "not in ''"),
        ({"state": 3}, errors.StateError, "not in 3"),
        ({"state": f"{__file__}/below"}, errors.StateError, "test_call_errors.py is no folder"),
        ({"state": "ftp://host/folder", "daemon": ...}, errors.StateError, "ftp://host/folder"),
        ({"state": "below", "daemon": "grpc://elsewhere:1"}, errors.StateError, "'below'.*give it from the root"),
        ({"state": "/tmp/state", "name": "\u00e4" * 200}, errors.StateError, "shorter name"),
        ({"state": "s3://bucket/" + "p" * 600, "name": "\u00e4" * 200}, errors.StateError, "shorter name"),
        ({"state": "s3://bucket/prefix", "name": "bids//asks"}, errors.StateError, "'.*/bids//asks'.*another name"),
        ({"state": "hdfs://node/windows", "cluster": True}, errors.StateError, "hdfs://node/windows.*Give a folder"),
        ({"name": "two\nlines"}, errors.QueryError, r"printable characters, not 'two\\nlines'"),
        ({"name": "bids/0-of-2"}, errors.QueryError, "ends as the name of a partition"),
        ({**IN_TIME, "partitions": 65}, errors.LimitError, "65 windows.*64 queries.*--max-queries"),
        ({**IN_TIME, "partitions": 33, "how": "full"}, errors.LimitError, "66 windows"),
        ({"left": Rows(200_000_000), "right": Rows(200_000_000), "partitions": 2}, errors.CapacityError, "left window"),
        ({"state": "/tmp/state", "stages": 1, "cluster": True}, errors.UnsupportedError, "leave stages=1 out"),
        ({"state": "/tmp/state", "cluster": True, "name": "\u00e4" * 200}, errors.StateError, "shorter name"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_stream_is_refused_before_any_task(spark, frame, daemon, monkeypatch, options, error, message):
    """What its first micro-batch would raise in a task or a daemon. No job of Spark runs for it."""
    if re.match("(ftp|hdfs|memory|s3):", str(options.get("state"))):
        pytest.importorskip("obstore")
    context = spark.sparkContext
    sides = (spark.readStream.format("rate").load().select(*_columns(), F.lit(side).alias("side")) for side in "lr")
    given = {**GOOD, "device": "numpy", "state": None, "partitions": 1, **options}
    if "within" in given:
        given |= {"left": None, "right": None, "sequence": None}
        sides = (side.withWatermark("ts", "1 second") for side in sides)
    if given.pop("cluster", False):
        module = sys.modules["muntin.pyspark_bridge.window_join"]  # the package has the function by this name
        monkeypatch.setattr(module, "_is_cluster", lambda spark: True)
    if "daemon" in given:
        given |= {"device": None, "daemon": daemon.address if given["daemon"] is ... else given["daemon"]}
    context.setJobGroup(message, message)
    try:
        with pytest.raises(error, match=message):
            window_join(*sides, **given)
        assert not context.statusTracker().getJobIdsForGroup(message)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.parametrize("options", [{}, {"no_data_batches": False}, {"how": "inner"}, {"idle_after": None}])
def test_what_idle_after_does_not_emit(spark, caplog, options):
    """Rows that wait are due by the join's watermark, but micro-batches without data come by Spark's."""
    sides = (
        spark.readStream.format("rate")
        .load()
        .select(*_columns(), F.lit(side).alias("side"))
        .withWatermark("ts", "1 second")
        for side in "lr"
    )
    given = {**IN_TIME, "how": "left", "idle_after": "5 minutes", "device": "numpy", "state": None, **options}
    window_join(*sides, **given)
    assert ("idle_after='5 minutes': while a side sends nothing" in caplog.text) == (not options)


def test_stream_with_table(frame, spark):
    stream = spark.readStream.format("rate").load()
    on = {"on": GOOD["on"]}
    for options, said in (
        (GOOD, r"the left side\) does not take left= and right="),
        ({**on, "sequence": "text"}, "sequence='text'"),
        ({**on, "how": "left"}, r"how='left'.*Use 'inner'"),
        ({**on, "how": "full"}, r"how='full'.*Use 'right'"),
        ({**on, "idle_after": "1 minute"}, "idle_after"),
        ({**on, "form": "pairs"}, "numbers of rows.*state=None"),
        ({**on, "partitions": Partitions(2, "ranges")}, "whole table"),
        ({**on, "daemon": "grpc://localhost:1"}, "localhost"),
    ):
        with pytest.raises(errors.MuntinError, match=said):
            window_join(frame, stream.withColumn("k", F.col("value")), **options)
    with pytest.raises(TypeError, match=r"left side must be a Spark DataFrame \(pyspark\.sql\.DataFrame\), not dict$"):
        window_join({}, frame, **GOOD, state=None)
    with pytest.raises(TypeError, match=r"right side must be a Spark DataFrame .*, not pandas\.\S*DataFrame$"):
        window_join(frame, pd.DataFrame(), **GOOD, state=None)


def test_names_that_differ_in_case_alone(frame, daemon):
    upper = frame.withColumnRenamed("text", "TEXT")
    with pytest.raises(errors.SchemaError, match="'text' and 'TEXT'"):
        window_join(frame, upper, **GOOD, daemon=daemon.address, state=None)


def test_type_that_arrow_cannot_carry(frame, spark):
    months = frame.withColumn("span", F.expr("INTERVAL '3' MONTH"))
    with pytest.raises(errors.SchemaError, match=r"span.*left.*interval month"):
        window_join(months, frame, **GOOD, state=None)


def test_duplicate_columns(frame):
    with pytest.raises(errors.SchemaError, match="seq"):
        window_join(frame.select("*", "seq"), frame, **GOOD, state=None)


def test_sessions_on_a_cluster_need_a_named_daemon(frame, monkeypatch):
    from muntin.pyspark_bridge import private_daemon

    class Session:
        conf: ClassVar = {"spark.master": "spark://elsewhere:7077"}

    with pytest.raises(errors.UnsupportedError, match=r"spark://elsewhere:7077.*muntin serve"):
        private_daemon.private_daemon(Session(), "numpy", True)

    class Connect(Session):
        __module__ = "pyspark.sql.connect.session"
        conf: ClassVar = {"spark.master": "local[2]"}
        client = SimpleNamespace(host="spark.example.org")

    with pytest.raises(errors.UnsupportedError, match=r"spark\.example\.org.*muntin serve"):
        private_daemon.private_daemon(Connect(), "numpy", True)


def test_worker_python_without_the_packages(spark, tmp_path, monkeypatch):
    check_worker_python(spark)
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    assert subprocess.run([bare, "-c", "import sys"], check=False).returncode == 0
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(WorkerPythonError, match=r"No module named 'numpy'.*PYSPARK_PYTHON"):
        check_worker_python(spark)
