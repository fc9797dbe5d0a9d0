"""`window_join`: two Spark DataFrames in, the DataFrame of their matches out."""

from __future__ import annotations

import dataclasses
import functools
import logging
import secrets
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import muntin
from muntin.host.daemon.certificate import Certificate
from muntin.host.daemon.windows import Windows
from muntin.host.engine.stateless_placement import EqualityPlacement, can_follow, open_placement
from muntin.host.engines import EngineKind, Inner, Outer, Partitions, open_partitioning
from muntin.host.errors import DeviceError, QueryError, StateError, UnsupportedError, WindowError
from muntin.host.index import Index
from muntin.host.predicates import AsOf
from muntin.host.sides import Side
from muntin.host.spec import JoinSpec
from muntin.host.tracing import check_tracing, settings, tracing_wanted
from muntin.host.windows import Rows, Within
from muntin.pyspark_bridge.call_checks import (
    NO_DATA,
    checked_by_daemons,
    checked_certificate,
    state_place,
    with_no_data,
)
from muntin.pyspark_bridge.conditions import read_sides
from muntin.pyspark_bridge.join_identity import join_identity
from muntin.pyspark_bridge.join_task import SENT_SCHEMA, JoinTask, task_function
from muntin.pyspark_bridge.listener import note_join
from muntin.pyspark_bridge.observed import observed, status_column, with_status
from muntin.pyspark_bridge.private_daemon import master_of, private_daemon
from muntin.pyspark_bridge.result_schema import arrow_schema_of, result_schema
from muntin.pyspark_bridge.spark_versions import by_number, is_dataframe
from muntin.pyspark_bridge.static_side import with_table
from muntin.pyspark_bridge.tagged_union import (
    LEFT,
    PARTITION_COLUMN,
    RIGHT,
    clock_of,
    numbered_schema,
    tagged_union,
)
from muntin.pyspark_bridge.watermarks import MULTIPLE_CONF, result_delay, watermark_of
from muntin.pyspark_bridge.worker_python import check_worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

DEFAULT_DEVICE = "cpu"
#: Characters of a join's name; the daemon's name for it also holds the id of the Spark query.
MAX_NAME = 200


def window_join(
    left_df: DataFrame,
    right_df: DataFrame,
    on: Any,
    how: str = "inner",
    *,
    left: Rows | None = None,
    right: Rows | None = None,
    within: Within | tuple[Any, ...] | None = None,
    sequence: str | None = None,
    device: str | None = None,
    daemon: str | Sequence[str] | None = None,
    token: str | None = None,
    tls_ca: str | None = None,
    tls: bool | tuple[str, str] = True,
    name: str | None = None,
    state: str | EllipsisType | None = ...,
    partitions: int | Partitions = 1,
    stages: int | None = None,
    suffix: str = "_right",
    select: Sequence[str] | None = None,
    form: str = "rows",
    aggregates: Any = (),
    at: str = "arrival",
    order: str | Outer | Inner = "none",
    index: str | Index = "auto",
    engine: str | EngineKind = "auto",
    capacity: int | None = None,
    lag: int = 1,
    idle_after: Any = None,
    late: str = "drop",
    no_data_batches: bool | None = None,
    result_watermark: str | None = None,
    observe: str | None = None,
    tracing: bool | None = None,
) -> DataFrame:
    """Join two DataFrames over sliding windows: two streams, a stream and a table, or two tables. Classic sessions
    and Spark Connect.

    Everything that can be known without the data is checked here and now: columns, types, windows, device,
    daemon.

    Two streams give a stream for any sink, in output mode append (or update); each match comes once, in the
    micro-batch of its later row, also after a failed task, a replayed micro-batch, and, with a named daemon,
    a restart from the checkpoint. Two DataFrames that are not streams are joined as one batch whenever the
    result is computed. A stream and a DataFrame that is none, on either side, give a stream: each of its rows meets, in
    its micro-batch, all rows of the table that match; see *Notes*.

    Parameters
    ----------
    left_df, right_df : DataFrame
        The sides. The same one twice is a self join: it is read once, and each row meets itself and, in both roles,
        the earlier rows of the window.
    on : Column, str, list of str, Band, Compare, AnyOf, AllOf or AsOf
        The condition, as `DataFrame.join` takes it: a Column over both sides, by aliases
        (``F.col("bids.venue")``) or `df.col`; or names of columns that both sides have and whose values are equal, of
        which the result has one each: first these, then the left side's other columns, then the right's. In other text,
        such as "left.venue = right.venue AND left.limit < right.price", columns are left.name and right.name, or the
        name alone where one side alone has it. `AllOf()`, or TRUE in a text, is every pair of rows, a cross join.

        In Columns, text and names the first pair of timestamps, one of each side, whose difference is bounded at
        both ends is the time window, those with `withWatermark` first, unless `within` or `left` and `right` are given.
        Functions and other expressions of a condition that are about one side, and that a join here does not know, are
        computed by Spark before the join; they remove no row. A day is 24 hours.
    left, right : Rows
        Count windows: how many rows of each side are kept.
    within : Within or tuple
        Or a time window, as a tuple its four parts: (left time, right time, low, high); without any window every row
        is kept, and streams take inner and semi joins alone. Where a side has `withWatermark` on its time column, its
        late rows are dropped and rows that no later row can match are forgotten, as in Spark's own stream-stream join;
        see *Notes*.
    sequence : str, optional
        A column of both sides that gives the order of arrival across both. Without it each micro-batch counts
        as all its left rows, then all its right rows, and Spark does not promise the order of rows on one
        side: name one for count windows.
    device : str, optional
        Device of the daemon that is started for this join where `daemon` is not given; "cpu" by default.
        Other names are listed by `muntin devices`.
    daemon : str, optional
        Address of a running daemon: "unix:/path/sock", "grpc://host:port" or "grpc+tls://host:port"; with `partitions`
        also a list of them, to which partitions go in turn, in the order given. Its
        windows outlive the query, so the query can be stopped and restarted from its checkpoint. Without it
        the daemon started here ends when the queries that use it have ended (for DataFrames that are not
        streams: with this process), and works for sessions in local mode. On a cluster, streams with `state` need none:
        each partition's is started on the executor that first needs it, and ends with the executor; another takes over
        from the state.
    token : str, optional
        For a daemon that asks for one. Spark's plan carries it to the workers.
    tls_ca : str, optional
        PEM file of the certificates to trust for "grpc+tls:"; it must lie at this path on the workers'
        machines too.
    tls : bool or (str, str)
        Of daemons that are started on a cluster's executors: with True, TLS with a certificate and a key that are made
        for this query; with False none, so that whoever can read the network reads rows and token, and with the token
        may use the daemons; or the PEM files, here, of a certificate with a DNS name and of its private key. Spark's
        plan carries them, and the token, to the workers. In local mode rows stay on this machine, and go without.
    name : str, optional
        Finds the join's windows again after a restart, and tells it from other joins of one streaming query; the
        same each time the program starts, in any text of 1 to 200 printable characters. By default made from the join,
        the columns and the text of the inputs' plans: a folder that is read or a column that is computed differently
        makes another name, whose windows the daemon does not hold (`StateLostError`). Two joins that nothing there
        tells apart, such as of two Kafka topics or with different Python functions, need names: without, the query
        that holds both fails in its first micro-batch (`QueryError`).
    state : str, optional
        A folder that the daemon's machine sees, or the address of an object store ("s3://bucket/prefix"), in which the
        windows of a stream are kept: the query then restarts from its checkpoint whatever has ended, the daemon too,
        and on any machine that reaches the place; a folder that does not begin at the root is one below that of this
        process. With None the windows end with the daemon. A stream asks for one of
        the two, but where the named daemons keep state (``muntin serve --state``).
    partitions : int or Partitions
        Into how many windows the rows go; the result is the same. By the values that are compared for equality, where a
        part of the condition does; else by ranges of the key of a band with two ends, or by subwindows: then each left
        row (of ``how="right"``, right row) lies in one partition, and a row of the other side in each that may hold
        rows it meets; ``how="full"`` then has two windows for each partition, one cut by left and one by right rows.
        How a query's rows go to partitions must not change between its starts. Of DataFrames that are not streams each
        partition is a task, and the window must be a time window.
    stages : int, optional
        1 or 2, for streams. In one stage all rows of a micro-batch pass one task. In two, the tasks that have read rows
        send them to the daemons of their partitions, and one task for each partition fetches the result. By default 2
        where there are several partitions, or tasks may run on several machines; on one machine 1 is faster.
    how : str
        "inner", "left", "right", "full", "left_semi", "left_anti" or "right_anti", or another of Spark's spellings; see
        *Notes*.
    suffix : str
        Appended to the name of a right column that the left side has too.
    select : sequence of str, optional
        The columns of the result, by their names in it and in this order; all by default. Columns that neither these
        nor the join need are left out of what Spark reads and sends: it cannot see by itself which ones are used behind
        a join like this one.
    form, aggregates, at, order, index, engine, capacity
        As for `muntin.JoinSpec`.
    lag, idle_after
        Of streams with `withWatermark`, as for `host.Watermark`: how many micro-batches the watermark lags, 1 or 0; and
        how much of the other side's event time a side may send nothing for, such as "10 minutes", before the join goes
        on without it.
    late : str
        ``"keep"``: late rows are rows of the result, once, in a column ``_late`` marked with their side, "left" or
        "right", and with NULL for the other side's columns; ``_late`` is NULL in all other rows. For ``form="rows"``,
        and in full and self joins not in several `partitions` without an equality.
    no_data_batches : bool, optional
        Of streams with `withWatermark` where rows wait for it (unmatched rows of time windows, as-of joins,
        ``at="close"``): whether Spark runs a micro-batch without data once the watermark has moved, as for its own
        joins, so that what is due comes out at once, with the trigger `availableNow` too. It reads the time column of
        one side a second time (the whole source where that is Kafka, CSV or JSON), and adds
        ``spark.sql.shuffle.partitions`` small tasks to each micro-batch. It stays as it was at the first start of a
        query, as Spark does not restart a checkpoint with more or fewer sources: by default as the state says, and True
        where it says nothing; another value than that of the state is refused.
    result_watermark : str, optional
        The name in the result of one of the times of `within=`, of inner and semi joins: it gets `withWatermark` with
        the delay after which no row of the result comes, so that ``groupBy(window(...))``, other stateful operators or
        a further `window_join` stand behind the join. Needs ``lag=0``, and
        ``spark.sql.streaming.statefulOperator.allowMultiple`` set to false.
    observe : str, optional
        Of streams: a name under which the daemon's figures of a micro-batch stand in the ``observedMetrics`` of Spark's
        progress, those of all partitions together; see `JoinProgress` for what they are. Columns of the result may be
        NULL by its schema then.
    tracing : bool, optional
        Send OpenTelemetry spans of tasks, requests and the daemon that is started here, those of a micro-batch as one
        trace; needs ``muntin[tracing]`` on the workers too. Spark's plan carries the ``OTEL_`` environment variables
        to them. A daemon that is named has its own option, `muntin serve --tracing`. By default as the environment
        variable ``MUNTIN_TRACING`` says: "1", or no spans.

    Returns
    -------
    DataFrame
        All columns of the left side, then (but for semi and anti joins) all of the right, with their types (for
        `form="rows"`). Columns
        carry no watermark but that of `result_watermark`: a match may be older than Spark's watermark, and a stateful
        operator after it would drop it unseen.

    Raises
    ------
    SchemaError, KeyTypeError, PredicateError, WindowError, UnsupportedError
        A column, type, condition, window or option that does not fit.
    DeviceError, CapacityError, LimitError
        No such device; the windows of all partitions would not fit it if it were empty, or are more than it may open.
    StateError
        A stream without `state`, or one that cannot be where that says.
    DaemonError
        The daemon cannot be reached or refuses (`ConnectionLostError`, `AuthError`).
    WorkerPythonError
        Spark's Python workers cannot run the join.

    Notes
    -----
    Unmatched rows, of outer and anti joins. A row of a stream that has matched nothing comes out in the micro-batch
    from which on no row can match it: at once where its key or time is NULL, in a time window when the watermark says
    so (that which filters the next micro-batch), in a count window when as many later rows of its own side have come as
    that window holds. With `no_data_batches` Spark runs a micro-batch without data once the watermark has moved, as for
    its own joins; without, what the last rows have made due waits for the next data. DataFrames that are not streams
    give all their unmatched rows.

    A stream and a table. Spark reads the table's columns that are needed once, during this call; its tasks keep them as
    Arrow files below `state`, else in a temporary folder of this machine, and each daemon of the query loads all of
    them. The table is no part of the windows' state, and a query that is restarted meets the table of that start; with
    `state` a micro-batch that Spark replays meets the one that it met before. There are no windows: ``within=`` is a
    part of the condition, and no row of the stream is late. Unmatched rows of the stream come out with their
    micro-batch; those of the table never could, so a `how` that asks for them is refused. An as-of join takes the table
    as its right side. The columns of the stream keep their watermark in the result. With `partitions` each has the
    whole table, and rows of the stream are spread.

    Late rows. As in Spark's join one watermark serves both sides: the least (or greatest, by
    `spark.sql.streaming.multipleWatermarkPolicy`) over the sides of the newest event time less the delay.
    Spark uses a watermark for late rows that lags one micro-batch, or none where it found time for a
    micro-batch without data; here `lag` says which. On windows of event time (`within=Within("window.end",
    "window.end", 0, 0)`) the newest `window.start` counts, as the rows no longer have the time. Rows that a filter
    removes after `withWatermark` still move Spark's watermark, but not this one.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    _check_frames(left_df, right_df)
    streaming = bool(left_df.isStreaming or right_df.isStreaming)
    static: Side | None = None
    if left_df.isStreaming != right_df.isStreaming:
        static = "right" if left_df.isStreaming else "left"
    if static is not None:
        for given, value in (("idle_after", idle_after), ("result_watermark", result_watermark)):
            if value is not None:
                raise UnsupportedError(
                    f"{given}={value!r} is for two streams: rows of a stream that meets a table wait for nothing, and "
                    "its columns keep their watermark. Leave it out"
                )
    sides = read_sides(left_df, right_df, on, within, counted=left is not None or right is not None)
    left_df, right_df, on, within = sides.left, sides.right, sides.on, sides.within
    two_times = isinstance(within, Within) and within.left_time != within.right_time
    self_join = left_df is right_df and not two_times
    left_schema, right_schema = arrow_schema_of(left_df, "left"), arrow_schema_of(right_df, "right")
    times = on if isinstance(on, AsOf) else sides.within
    watermark = watermark_of(left_df, right_df, times, lag, idle_after) if streaming and static is None else None
    spec = JoinSpec(
        on=on,
        left=left,
        right=right,
        within=sides.within,
        sequence=sequence,
        form=form,
        aggregates=aggregates,
        at=at,
        order=order,
        index=index,
        engine=engine,
        how=how,
        suffix=suffix,
        select=select,
        watermark=watermark,
        late=late,
        capacity=capacity,
        self_join=self_join,
        itself=self_join,
        static=static,
    )
    spec = sides.shown(spec, left_schema, right_schema)
    if form == "ranges":
        raise UnsupportedError("form='ranges' is for muntin.WindowJoin, beside a RangeMirror: use 'pairs'")
    if streaming:
        spec.check_endless()
    if name is not None and (not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable()):
        raise QueryError(f"name must be text of 1 to {MAX_NAME} printable characters, not {str(name)[:80]!a}")
    if name is not None and Windows.of(f"/{name}").count != 1:
        raise QueryError(f"name={name!r} ends as the name of a partition of a join does: give another one")
    delay = None
    if result_watermark is not None:
        if not streaming:
            raise UnsupportedError(f"result_watermark={result_watermark!r} is for streams")
        multiple = left_df.sparkSession.conf.get(MULTIPLE_CONF, "true")
        delay = result_delay(spec, result_watermark, left_schema, right_schema, multiple)
    spec, partitions = _placed(spec, partitions, left_schema, right_schema, streaming=streaming)
    schema = result_schema(spec, left_df, right_df, left_schema, right_schema)
    made = spec.output_columns(left_schema, right_schema) if sides.keys and form == "rows" else []
    if spec.select is not None or static is not None:
        left_df, left_schema, right_df, right_schema = _pruned(spec, left_df, left_schema, right_df, right_schema)
    status = None
    if observe is not None:
        if not streaming:
            raise UnsupportedError(f"observe={observe!r} is for streams: a batch's result can be observed itself")
        status = status_column(schema)
        schema = with_status(schema, status)
    if daemon is not None and device is not None:
        raise DeviceError(
            f"device={device!r} is for the daemon that is started where none is named; {daemon} has its own: "
            "leave one out"
        )
    own = checked_certificate(daemon, token, tls_ca, tls)
    check_worker_python(left_df.sparkSession)
    tracing = tracing_wanted() if tracing is None else tracing
    if tracing:
        check_tracing()
    daemons = tuple([daemon] if isinstance(daemon, str) else daemon or ())
    if daemon is not None and not 0 < len(daemons) <= partitions.count:
        raise UnsupportedError(f"{len(daemons)} daemons for {partitions.count} partitions: give at most one for each")
    place = None if state is ... or state is None else state_place(state, daemons)
    on_executors = not daemons and streaming and place is not None and _is_cluster(left_df.sparkSession)
    stages = _stages(left_df, streaming, partitions.count, stages, on_executors=on_executors)
    union = functools.partial(tagged_union, left_df, None if spec.self_join else right_df)
    if static is not None:
        stream, side = (left_df, LEFT) if static == "right" else (right_df, RIGHT)
        union = functools.partial(tagged_union, stream, None, side=side)
    identity = name or join_identity(spec, left_schema, right_schema, union())
    task = JoinTask(
        address=daemons[0] if daemons else "",
        token=token,
        tls_ca=tls_ca,
        private=not daemons and not on_executors,
        join=identity,
        named=name is not None,
        instance=uuid.uuid4().hex,
        spec=spec.to_json(),
        left_schema=left_schema.serialize().to_pybytes(),
        right_schema=right_schema.serialize().to_pybytes(),
        streaming=streaming,
        state=place,
        partitions=partitions.count,
        by=partitions.by,
        width=partitions.width,
        daemons=daemons,
        device=(device or DEFAULT_DEVICE) if on_executors else None,
        status=status,
        tracing=settings() if tracing else None,
    )
    kept, begun = checked_by_daemons(task, device or DEFAULT_DEVICE)
    if streaming and state is ... and not kept and not spec.stateless:
        if static is not None:
            raise StateError(
                f"form={form!r} has numbers of rows, which go on from one start of the query to the next: "
                "state='/shared/folder' (or 's3://bucket/prefix') keeps how many there were; with state=None they "
                "begin at 0 again where the daemon has ended"
            )
        raise StateError(
            "where are the windows of this stream to be kept? state='/shared/folder' (or 's3://bucket/prefix') keeps "
            "them there, and the query restarts from its checkpoint; state=None keeps them in the daemon's memory "
            "alone, and the query cannot be restarted once that has ended"
        )
    clock = None
    if spec.waits and watermark is not None and times is not None:
        no_data = with_no_data(no_data_batches, begun)
        task = dataclasses.replace(task, fixed={NO_DATA: no_data})
        if no_data:
            on_left = watermark.left is not None
            clock = clock_of(left_df, times.left_time) if on_left else clock_of(right_df, times.right_time)
            if watermark.idle_after is not None:
                log.warning(
                    "idle_after=%r: while a side sends nothing, the watermark of the join goes on, but Spark's own "
                    "stands, by which it runs micro-batches without data: what the last rows of the other side make "
                    "due is emitted with the next data",
                    idle_after,
                )
    inputs = union(clock=clock)
    if on_executors:
        token = _token_of_query(str(place), identity)
        task = dataclasses.replace(task, token=token)
        if (certificate := own or (_certificate_of_query(str(place), identity) if tls else None)) is not None:
            task = dataclasses.replace(task, tls=(certificate.chain, certificate.key), tls_ca=certificate.trust)
    elif not daemons:
        address = private_daemon(left_df.sparkSession, device or DEFAULT_DEVICE, streaming, tracing=tracing)
        task = dataclasses.replace(task, address=address)
    root = str(Path(muntin.__file__).parent.parent)
    if static is not None:
        task = with_table(task, left_df if static == "left" else right_df, root)
    if streaming:
        note_join(task)
    if streaming and static is None and spec.unbounded:
        log.warning(
            "the join of %s has no window: it keeps every row of both streams, without end%s",
            on,
            "" if capacity is None else f", and fails beyond {capacity:,} rows a side",
        )
    axis = spec.time_axis(left_schema, right_schema)

    def finished(result: DataFrame) -> DataFrame:
        if status is not None:
            result = observed(
                result, str(observe), status, counted=spec.counted, times=axis is not None and not axis.integers
            )
        result = sides.one_key_each(result, spec, select, made)
        if delay is None or result_watermark is None:
            return result
        return result.withWatermark(f"`{result_watermark.replace('`', '``')}`", delay)

    if stages == 2 or partitions.count > 1:
        sends = _parallel_sends(left_df.sparkSession, partitions.count)
        following = partitions.count > 1 and stages == 2 and can_follow(spec)
        if partitions.by == "equality" and not following:
            equal = _partition_columns(spec) if partitions.count > 1 else []
            inputs = union(partitions.count, equal, sends if stages == 2 else None, clock)
        else:
            if partitions.by == "equality":  # raises where the types have none in common
                EqualityPlacement(spec, left_schema, right_schema, partitions.count)
            inputs = union(sends=sends, clock=clock)
            if stages == 1:
                placed = numbered_schema(inputs.schema)
                placed_rows = inputs.mapInArrow(task_function(task, root, "place"), placed)
                inputs = by_number(placed_rows, task.windows, PARTITION_COLUMN)
    if stages == 1:
        return finished(inputs.mapInArrow(task_function(task, root), schema))
    sent = inputs.mapInArrow(task_function(task, root, "send"), from_arrow_schema(SENT_SCHEMA))
    return finished(by_number(sent, task.windows, "target").mapInArrow(task_function(task, root, "fetch"), schema))


def _stages(frame: DataFrame, streaming: bool, partitions: int, stages: int | None, *, on_executors: bool) -> int:
    """In how many stages a join runs. Raises UnsupportedError, WindowError."""
    if stages not in (None, 1, 2) or isinstance(stages, bool):
        raise WindowError(f"stages must be 1 or 2, not {stages!r}")
    if not streaming:
        if stages == 2:
            raise UnsupportedError("stages=2 is for streams: DataFrames that are not are joined in one stage")
        return 1
    if stages == 1 and partitions > 1:
        raise UnsupportedError(f"partitions={partitions} of streams take two stages: leave stages=1 out")
    if stages == 1 and on_executors:
        raise UnsupportedError(
            "daemons that tasks start on their executors take two stages: leave stages=1 out, or name a daemon"
        )
    if stages is None:
        stages = 2 if partitions > 1 or _is_cluster(frame.sparkSession) else 1
    return stages


@functools.cache
def _token_of_query(state: str, join: str) -> str:
    """For the daemons that tasks start on executors: the same when this process starts the query again."""
    return secrets.token_hex(16)


@functools.cache
def _certificate_of_query(state: str, join: str) -> Certificate:
    """The same."""
    return Certificate.make()


def _is_cluster(spark: SparkSession) -> bool:
    """Whether tasks may run in other processes than the driver's, on this machine or others."""
    master = master_of(spark)
    return master != "local" and not master.startswith("local[")


def _parallel_sends(spark: SparkSession, partitions: int) -> int:
    """The most tasks of a micro-batch that send rows: as many as run at once, as far as that can be seen from here."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        return max(2, context.defaultParallelism)
    return int(spark.conf.get("spark.default.parallelism", None) or max(2, 2 * partitions))


def _placed(
    spec: JoinSpec, partitions: Any, left: pa.Schema, right: pa.Schema, *, streaming: bool
) -> tuple[JoinSpec, Partitions]:
    """The partitions of a join with what rows go by, and the join that runs in each.

    Raises
    ------
    WindowError, PredicateError, UnsupportedError
        If it is no such number or width, or the join cannot be cut so.
    """
    partitions = open_partitioning(partitions)
    count = partitions.count
    if partitions.subwindow_rows is not None:
        raise UnsupportedError(
            f"{partitions} is for one process: in Spark use Partitions({count}, by=..., width=...), as tasks do not "
            "know how many rows others have"
        )
    if count == 1:
        return spec, Partitions(1, "equality")
    form = "rows" if spec.closing else spec.form  # what a left row matches is in its partition
    for name, value, plain in (("order", spec.order, "none"), ("form", form, "rows")):
        if value != plain:
            raise UnsupportedError(
                f"{name}={value!r} is for one window, not for partitions={count}: leave one of them out"
            )
    if spec.counted and not streaming:
        raise UnsupportedError(
            f"partitions={count} of DataFrames that are not streams is for time windows: count windows go by the "
            "order of arrival over all partitions. Give within=, or leave partitions out"
        )
    if spec.static is not None:
        if partitions.by not in ("auto", "subwindows") or partitions.width is not None:
            raise UnsupportedError(
                f"{partitions} of a stream and a table: each partition has the whole table, and rows of the stream are "
                "spread over them: leave by= and width= out"
            )
        return spec, Partitions(count, "subwindows")
    equal = _partition_columns(spec)
    if partitions.by == "equality" or (partitions.by == "auto" and equal):
        if not equal:
            raise UnsupportedError(
                f"partitions={count} by equality go by the values that are compared for equality, and the condition "
                "compares none: leave by= out"
            )
        if partitions.width is not None:
            raise UnsupportedError(
                f"width={partitions.width!r} is for partitions by ranges or subwindows, not by equality: leave it out"
            )
        return spec, Partitions(count, "equality")
    if spec.prevailing:
        by = "ranges or subwindows" if partitions.by == "auto" else partitions.by
        itself = " of a column with itself" if spec.self_join else ""
        out = "leave by= and width= out"
        if not equal:
            out = f"add an equality{itself} to the condition, or leave partitions out"
        raise UnsupportedError(
            "prevailing=True needs the rows of a value in one partition, for the newest before a window, and "
            f"{partitions} go by {by}: {out}"
        )
    if spec.late == "keep" and streaming and (spec.how == "full" or spec.self_join):
        what = "a self join" if spec.self_join else "how='full'"
        raise UnsupportedError(
            f"late='keep' of {what} in {partitions}, which do not go by equality: each row is read, or joined, twice "
            "there, and late ones would be given twice. Add an equality to the condition, or leave partitions out"
        )
    if spec.self_join:
        if spec.counted:
            raise UnsupportedError(
                f"a self join with count windows goes to partitions={count} by a column that is compared with itself "
                "for equality, and the condition has none: give within=, or leave partitions out"
            )
        spec = dataclasses.replace(spec, self_join=False, itself=False)  # the rows are read for each role
    return spec, dataclasses.replace(partitions, by=open_placement(spec, left, right, partitions).by)


def _partition_columns(spec: JoinSpec) -> list[tuple[str, str]]:
    """The columns that rows go to partitions by, where they go by equality: pairs of a left and a right one."""
    return [(part.left, part.right) for part in spec.equalities if not spec.self_join or part.left == part.right]


def _check_frames(left_df: DataFrame, right_df: DataFrame) -> None:
    for side, frame in (("left", left_df), ("right", right_df)):
        if not is_dataframe(frame):
            given = f"{type(frame).__module__}.{type(frame).__qualname__}".removeprefix("builtins.")
            raise TypeError(f"the {side} side must be a Spark DataFrame (pyspark.sql.DataFrame), not {given}")


def _pruned(
    spec: JoinSpec, left_df: DataFrame, left: pa.Schema, right_df: DataFrame, right: pa.Schema
) -> tuple[DataFrame, pa.Schema, DataFrame, pa.Schema]:
    """Both sides without the columns that the join does not need."""
    spec = dataclasses.replace(spec, late="drop")  # late rows have the columns of the result
    kept = {side: set(spec.kept_columns(side, left, right)) for side in ("left", "right")}
    # A right column has the suffix because the left side has one of its name.
    kept["left"] |= {column for side, column, name in spec.output_columns(left, right) if column != name}
    if spec.self_join:
        kept["left"] = kept["right"] = kept["left"] | kept["right"]
    frames = []
    for frame, schema, names in ((left_df, left, kept["left"]), (right_df, right, kept["right"])):
        places = [at for at, name in enumerate(schema.names) if name in names]
        numbered = frame.toDF(*(f"c{at}" for at in range(len(schema)))).select(*(f"c{at}" for at in places))
        frames.append(
            (numbered.toDF(*(schema.names[at] for at in places)), pa.schema([schema.field(at) for at in places]))
        )
    return (*frames[0], *frames[1])
