"""`window_join`: two Spark DataFrames in, the DataFrame of their matches out."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import host
from host import JoinSpec, Rows, Within
from host.daemon import DaemonClient
from host.errors import DeviceError, SchemaError, UnsupportedError
from pyspark_bridge.join_identity import join_identity
from pyspark_bridge.join_task import JoinTask, task_function
from pyspark_bridge.private_daemon import private_daemon
from pyspark_bridge.result_schema import result_schema
from pyspark_bridge.tagged_union import tagged_union
from pyspark_bridge.watermarks import watermark_of
from pyspark_bridge.worker_python import check_worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_DEVICE = "opencl"


def window_join(
    left_df: DataFrame,
    right_df: DataFrame,
    *,
    on: Any,
    left: Rows | None = None,
    right: Rows | None = None,
    within: Within | None = None,
    sequence: str | None = None,
    device: str | None = None,
    daemon: str | None = None,
    token: str | None = None,
    tls_ca: str | None = None,
    name: str | None = None,
    how: str = "inner",
    suffix: str = "_right",
    form: str = "rows",
    order: str = "none",
    policy: str = "ladder",
    capacity: int | None = None,
) -> DataFrame:
    """Join two DataFrames, both streams or both not, over sliding windows. Classic sessions and Spark
    Connect.

    Everything that can be known without the data is checked here and now: columns, types, windows, device,
    daemon.

    Two streams give a stream for any sink, in output mode append (or update); each match comes once, in the
    micro-batch of its later row, also after a failed task, a replayed micro-batch, and, with a named daemon,
    a restart from the checkpoint. Two DataFrames that are not streams are joined as one batch whenever the
    result is computed.

    Parameters
    ----------
    left_df, right_df : DataFrame
        The sides. The same one twice is a self join.
    on : Band, Compare or AnyOf
        The condition on one column of each side.
    left, right : Rows
        Count windows: how many rows of each side are kept.
    within : Within
        Or a time window. Where a side has `withWatermark` on its time column, its late rows are dropped and
        rows that no later row can match are forgotten, as in Spark's own stream-stream join; see *Notes*.
    sequence : str, optional
        A column of both sides that gives the order of arrival across both. Without it each micro-batch counts
        as all its left rows, then all its right rows, and Spark does not promise the order of rows on one
        side: name one for count windows.
    device : str, optional
        Device of the daemon that is started for this join where `daemon` is not given; "opencl" by default.
        Other names are listed by `mullion devices`.
    daemon : str, optional
        Address of a running daemon: "unix:/path/sock", "grpc://host:port" or "grpc+tls://host:port". Its
        windows outlive the query, so the query can be stopped and restarted from its checkpoint. Without it
        the daemon started here ends when the queries that use it have ended (for DataFrames that are not
        streams: with this process), and works for sessions in local mode.
    token : str, optional
        For a daemon that asks for one. Spark's plan carries it to the workers.
    tls_ca : str, optional
        PEM file of the certificates to trust for "grpc+tls:"; it must lie at this path on the workers'
        machines too.
    name : str, optional
        What tells this join from others in one streaming query, and finds its windows again after a restart.
        By default made from the join, the columns, and the order in which this process first sees joins of
        that shape.
    how : str
        "inner". Others are refused by name until they exist.
    suffix : str
        Appended to the name of a right column that the left side has too.
    form, order, policy, capacity
        As for `host.JoinSpec`.

    Returns
    -------
    DataFrame
        All columns of the left side, then all of the right, with their types (for `form="rows"`). Columns
        carry no watermark: a match may be older than Spark's watermark, and a stateful operator after it
        would drop it unseen.

    Raises
    ------
    SchemaError, KeyTypeError, PredicateError, WindowError, UnsupportedError
        A column, type, condition, window or option that does not fit.
    DeviceError, CapacityError
        No such device; the windows do not fit it.
    DaemonError
        The daemon cannot be reached or refuses (`ConnectionLostError`, `AuthError`, `LimitError`).
    WorkerPythonError
        Spark's Python workers cannot run the join.

    Notes
    -----
    Late rows. As in Spark's join one watermark serves both sides: the least (or greatest, by
    `spark.sql.streaming.multipleWatermarkPolicy`) over the sides of the newest event time less the delay.
    Spark uses a watermark for late rows that lags one micro-batch, or none where it found time for a
    micro-batch without data; here it always lags one. Rows that a filter removes after `withWatermark` still
    move Spark's watermark, but not this one.
    """
    _check_frames(left_df, right_df)
    streaming = bool(left_df.isStreaming)
    spec = JoinSpec(
        on=on,
        left=left,
        right=right,
        within=within,
        sequence=sequence,
        form=form,
        order=order,
        policy=policy,
        how=how,
        suffix=suffix,
        watermark=watermark_of(left_df, right_df, within) if streaming else None,
        capacity=capacity,
    )
    left_schema, right_schema = _arrow_schema(left_df, "left"), _arrow_schema(right_df, "right")
    schema = result_schema(spec, left_df, right_df, left_schema, right_schema)
    if daemon is not None and device is not None:
        raise DeviceError(
            f"device={device!r} is for the daemon that is started where none is named; {daemon} has its own: "
            "leave one out"
        )
    check_worker_python(left_df.sparkSession)
    if daemon is None:
        address = private_daemon(left_df.sparkSession, device or DEFAULT_DEVICE, streaming)
    else:
        address = daemon
    with DaemonClient(address, token=token, tls_ca=tls_ca) as client:
        _try_query(client, spec, left_schema, right_schema)
    task = JoinTask(
        address=address,
        token=token,
        tls_ca=tls_ca,
        private=daemon is None,
        join=name or join_identity(spec, left_df, right_df, left_schema, right_schema),
        spec=spec.to_json(),
        left_schema=left_schema.serialize().to_pybytes(),
        right_schema=right_schema.serialize().to_pybytes(),
        streaming=streaming,
    )
    root = str(Path(host.__file__).resolve().parent.parent)
    return tagged_union(left_df, right_df).mapInArrow(task_function(task, root), schema)


def _check_frames(left_df: DataFrame, right_df: DataFrame) -> None:
    from pyspark.sql import DataFrame

    for side, frame in (("left", left_df), ("right", right_df)):
        if not isinstance(frame, DataFrame):
            raise TypeError(f"the {side} side must be a Spark DataFrame, not {type(frame).__name__}")
    if left_df.isStreaming != right_df.isStreaming:
        stream, table = ("left", "right") if left_df.isStreaming else ("right", "left")
        raise UnsupportedError(
            f"the {stream} side is a stream and the {table} side is not: a window join needs two streams or "
            "two DataFrames "
            f"that are not. Read the {table} side with readStream, or join it inside foreachBatch"
        )


def _arrow_schema(frame: DataFrame, side: str) -> pa.Schema:
    """The Arrow schema in which a side's rows travel; timestamps in UTC, whatever the session's time zone."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    fields = []
    for field in frame.schema.fields:
        try:
            fields.append(to_arrow_schema(StructType([field]), timezone="UTC").field(0).remove_metadata())
        except Exception as error:
            # PySpark raises several classes here; each means the same to the caller.
            raise SchemaError(
                f"column {field.name!r} of the {side} side has type {field.dataType.simpleString()}, which "
                "Spark does not pass "
                f"to Python as Arrow ({error}); drop or cast it"
            ) from error
    return pa.schema(fields)


def _try_query(client: DaemonClient, spec: JoinSpec, left: pa.Schema, right: pa.Schema) -> None:
    """Open the query and close it again, so that what the daemon refuses is told now and not by a worker."""
    trial = f"check/{uuid.uuid4()}"
    # As a stream, which takes its device memory when it is opened.
    client.open_query(trial, spec, left, right, streaming=True)
    client.close_query(trial)
