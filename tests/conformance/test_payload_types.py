"""Payload columns of every Arrow type come through, or are refused by name when the join is made."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from muntin import Rows, Watermark, WindowJoin, Within, sql
from muntin.host import errors
from muntin.host.aggregates import Collect, Count
from muntin.host.engine.row_log import picked
from muntin.host.join.range_mirror import RangeMirror
from muntin.host.keys import kept_types
from muntin.host.predicates import AllOf, AnyOf, AsOf, Band, Compare, Where
from tests.conformance.small_joins import pairs_of


class Measure(pa.ExtensionType):
    """An extension type of the test."""

    def __init__(self, storage=pa.int32()):  # noqa: B008
        super().__init__(storage, "muntin.test.measure")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(storage)


def measure(values, storage):
    return pa.ExtensionArray.from_storage(Measure(storage), pa.array(values, storage))


WORDS = ["a", None, "", "a word that is longer than a view holds inline"]
NESTED = pa.struct({"x": pa.list_(pa.struct({"y": pa.string_view()})), "z": pa.int8()})
UNIONS = (pa.array([0, 1, 1, 0], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(["p", "q", None, "r"])])
LIST_VIEW = pa.array([WORDS, None, [], ["b"]], pa.list_view(pa.string_view()))
MIDDLE = pa.array([False, True, False])
COLUMNS = {
    "null": pa.nulls(4),
    "bool": pa.array([True, None, False, True]),
    **{str(kind): pa.array([1, None, 0, 3], kind) for kind in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float32(), pa.float64(), pa.date32(), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
        pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.duration("ms"),
    )},
    "date64": pa.array([86_400_000, None, 0, -86_400_000], pa.date64()),
    "float16": pa.array(np.array([1, 2, 3, 4], np.float16)),
    "month_day_nano": pa.array([(1, 2, 3), None, (0, 0, 0), (4, 5, 6)], pa.month_day_nano_interval()),
    **{str(kind): pa.array([decimal.Decimal(n) for n in (1, -2, 0, 3)], kind) for kind in (
        pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(30, 2), pa.decimal256(60, 2),
    )},
    **{str(kind): pa.array(WORDS, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{str(kind): pa.array([w and w.encode() for w in WORDS], kind) for kind in (
        pa.binary(), pa.large_binary(), pa.binary_view(),
    )},
    "fixed_size_binary": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
    **{str(kind): pa.array([[1], None, [], [2, None]], kind) for kind in (
        pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_view(pa.int32()), pa.large_list_view(pa.int32()),
    )},
    "fixed_size_list": pa.array([[1, 2], None, [3, 4], [5, None]], pa.list_(pa.int8(), 2)),
    "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}, {"x": 2, "y": None}]),
    "map": pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int32())),
    "dictionary": pa.array(WORDS).dictionary_encode(),
    "dictionary of views": pa.array(WORDS, pa.string_view()).dictionary_encode(),
    "dictionary of views with NULL": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 0], pa.int8()), pa.array(["a", None], pa.string_view())
    ),
    "fixed_size_list of nothing": pa.array([[], None, [], []], pa.list_(pa.string_view(), 0)),
    "list of dictionary": pa.array([["a"], None, [], ["b", "a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "run-end encoded structs of dictionaries": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 3, 4], pa.int16()),
        pa.StructArray.from_arrays([pa.array(["a", "b", "c"]).dictionary_encode()], ["x"], mask=MIDDLE),
    ),
    "run-end encoded views": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 3, 4], pa.int16()), pa.array(["a", None, "a word that is long"], pa.string_view())
    ),
    "run-end encoded": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3, 4], pa.int16()), ["a", None, "b"]),
    "dense union": pa.UnionArray.from_dense(UNIONS[0], pa.array([0, 0, 1, 1], pa.int32()), UNIONS[1]),
    "sparse union": pa.UnionArray.from_sparse(*UNIONS),
    "extension": measure([1, None, 3, 4], pa.int32()),
    "extension of views": measure(WORDS, pa.string_view()),
    "extension of views, in lists": pa.ListArray.from_arrays(
        pa.array([0, 2, 2, 3, 4], pa.int32()), measure(WORDS, pa.string_view()),
        mask=pa.array([False, True, False, False]),
    ),
    "uuid": pa.array([bytes(range(16)), None, bytes(16), bytes(16)], pa.uuid()),
    "json": pa.array(["{}", None, "[1]", "2"], pa.json_()),
    "list view of views": LIST_VIEW,
    "union of list views of views": pa.UnionArray.from_sparse(
        pa.array([0] * 4, pa.int8()), [LIST_VIEW]
    ),
    "union of views": pa.UnionArray.from_sparse(UNIONS[0], [pa.array([1, 2, 3, 4]), pa.array(WORDS, pa.string_view())]),
    "lists of fixed size in such": pa.array(
        [[[1, 2], [3, None]], None, [[4, 5], None], [[6, 7], [8, 9]]], pa.list_(pa.list_(pa.int8(), 2), 2)
    ),
    "lists of fixed size in such, of dictionaries": pa.array(
        [[["a"]], None, [None], [["b"]]], pa.list_(pa.list_(pa.dictionary(pa.int8(), pa.string()), 1), 1)
    ),
    "lists of fixed size in such, no NULL": pa.FixedSizeListArray.from_arrays(
        pa.FixedSizeListArray.from_arrays(pa.array(range(16), pa.int8()), 2), 2
    ),
    "list of views": pa.array([WORDS, None, [], ["b"]], pa.list_(pa.string_view())),
    "struct of views": pa.array([{"x": [{"y": w} for w in WORDS], "z": 1}, None, {"x": None}, {"x": []}], NESTED),
    "map to views": pa.array([[("a", "b")], None, [], [("c", None)]], pa.map_(pa.string(), pa.string_view())),
}  # fmt: skip
RUNS_OF_LISTS = pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int16()), pa.array([[1], None]))
REFUSED = {
    "dictionary of float16": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1, 0], pa.int8()), pa.array(np.array([1, 2], np.float16))
    ),
    "struct of run ends": pa.StructArray.from_arrays([COLUMNS["run-end encoded"]], ["x"]),
    "struct of an extension of run ends": pa.StructArray.from_arrays(
        [pa.ExtensionArray.from_storage(Measure(RUNS_OF_LISTS.type), RUNS_OF_LISTS)], ["x"]
    ),
    "struct of run ends and views": pa.StructArray.from_arrays(
        [COLUMNS["run-end encoded"], COLUMNS["string_view"]], ["x", "y"]
    ),
    "extension of unions": pa.ExtensionArray.from_storage(
        Measure(COLUMNS["sparse union"].type), COLUMNS["sparse union"]
    ),
}


def join_of(column, device="numpy", **more):
    schema = pa.schema({"k": pa.int64(), "p": column.type, "q": pa.int64()})
    return WindowJoin(
        on=Compare("k", "=", "k"), left=Rows(9), right=Rows(9), sequence="q", order="inner", device=device,
        left_schema=schema, right_schema=schema, **more,
    )  # fmt: skip


@pytest.mark.parametrize("name", list(COLUMNS))
def test_a_payload_of_every_type(name):
    column = COLUMNS[name]
    rows = pa.table({"k": [0, 1, 2, 3], "p": column, "q": [3, 2, 1, 0]})  # the sequence turns them round
    later = rows.set_column(2, "q", pa.array([4, 4, 4, 4]))
    with join_of(column) as join:
        assert join.process(None, None).schema == join.output_schema
        first, second, third = join.process(rows, None), join.process(None, later), join.process(rows.slice(0, 0), None)
    assert first.num_rows == third.num_rows == 0
    assert first.schema == second.schema == third.schema
    assert second["p"].type == column.type
    second.validate(full=True)
    assert second["k"].to_pylist() == [0, 1, 2, 3]
    for side in ("p", "p_right"):
        assert second[side].to_pylist() == column.to_pylist()


@pytest.mark.parametrize("name", list(COLUMNS))
def test_slices_of_rows(name):
    """Bytes and values of a slice are those of its own rows."""
    rows = kept_types.kept(pa.table({"p": COLUMNS[name]}))
    each = np.broadcast_to(kept_types.value_bytes(rows["p"].chunk(0)), 4).tolist()
    for start in range(1, 4):
        part = rows.slice(start)
        sizes = kept_types.value_bytes(part["p"].chunk(0))
        assert np.broadcast_to(sizes, 4 - start).tolist() == each[start:]
        turned = picked(part, np.arange(len(part))[::-1].copy())
        found = kept_types.returned(turned["p"], COLUMNS[name].type)
        assert found.to_pylist() == COLUMNS[name].to_pylist()[: start - 1 : -1]


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_payload_that_cannot_be_picked_is_refused_at_the_start(name):
    column = REFUSED[name]
    with pytest.raises(errors.SchemaError, match=r"column 'p' of the left side has type .*cannot pick"):
        join_of(column)
    with join_of(column, form="pairs") as join:  # where no row of it is needed, it does no harm
        rows = pa.table({"k": [0, 1, 2, 3], "p": column, "q": [3, 2, 1, 0]})
        assert join.process(rows, rows).num_rows == 4


def alike(a, b):
    """Whether two values are equal, field by field; NULL and NaN equal nothing."""
    if isinstance(a, dict):
        return isinstance(b, dict) and all(alike(a[name], b[name]) for name in a)
    return a is not None and a == b


def opened_or_refused(**options):
    """A join; None where it is refused with the name of the column `k`, or a field of it, and its type."""
    try:
        return WindowJoin(**options)
    except (errors.SchemaError, errors.KeyTypeError, errors.UnsupportedError) as error:
        said = str(error)
    kind = options["left_schema"].field("k").type
    kinds = [kind, *([kind.field(0).type] if pa.types.is_struct(kind) else [])]
    ranges = options["form"] == "ranges" and "without an order" in said
    assert ranges or any(
        f"column 'k{'.x' * at}'" in said and f"type {each}" in said for at, each in enumerate(kinds)
    ), said
    return None


FORMS = {
    "rows": {"form": "rows"},
    "counts": {"form": "counts"},
    "ranges": {"form": "ranges"},
    "aggregate": {"form": "aggregate", "aggregates": [Count()]},
    "inner order": {"order": "inner"},
    "full": {"how": "full"},
    "partitions": {"partitions": 2},
    "numpy": {"device": "numpy"},
    "splitjoin": {"engine": "splitjoin"},
    "self": {"self_join": True, "itself": True},
}


@pytest.mark.parametrize("name", [*COLUMNS, *REFUSED])
def test_a_key_of_every_type_in_every_form(name, tmp_path):
    """Under a sequence that turns the rows round, with state, where the form has one, before and after a restart; or
    refused as the join is opened."""
    for form in FORMS:
        check_key(name, form, tmp_path / form)


def check_key(name, form, state):
    column = {**COLUMNS, **REFUSED}[name]
    left = pa.table({"k": column, "q": [3, 2, 1, 0], "views": pa.array(list("abcd"), pa.string_view())})
    right = left.set_column(1, "q", pa.array([7, 6, 5, 4]))
    options = {"on": Compare("k", "=", "k"), "left": Rows(9), "right": Rows(9), "sequence": "q", "form": "pairs"}
    options |= {"left_schema": left.schema, "right_schema": right.schema} | FORMS[form]
    options |= {} if form == "ranges" else {"state": str(state)}
    sides = (left,) if form == "self" else (left, right)
    values = (column.cast(pa.int64()) if pa.types.is_time64(column.type) else column).to_pylist()
    due = {(3 - a, 3 - b) for a in range(4) for b in range(4) if alike(values[a], values[b])}
    join = opened_or_refused(**options)
    if join is None:
        return
    with join:
        found = join.process(*sides)
        if form == "ranges":
            found = RangeMirror(join.spec, left.schema, right.schema).pairs(found, left, right)
    if form in ("counts", "aggregate"):
        matches = found["matches" if form == "counts" else "count(1)"].to_pylist()
        assert matches == [0] * 4 + [sum(b == row for _, b in due) for row in range(4)]
    elif form == "rows":
        assert found["views"].type == pa.string_view()
        rows = zip(found["q"].to_pylist(), found["q_right"].to_pylist(), strict=True)
        assert {(a, b - 4) for a, b in rows} == due
    else:
        assert {pair for pair in pairs_of(found) if None not in pair} == due
    if form != "ranges":
        with WindowJoin(**options) as join:
            assert join.repeat().num_rows == found.num_rows
            if form == "full":
                alone = 8 - len({a for a, _ in due}) - len({b for _, b in due})
                assert found.num_rows + join.finish().num_rows == len(due) + alone


@pytest.mark.parametrize("role", ["by", "time", "where"])
@pytest.mark.parametrize("name", [*COLUMNS, *REFUSED])
def test_as_of_by_a_column_of_every_type(name, role):
    column = {**COLUMNS, **REFUSED}[name]
    rows = pa.table({"k": column, "q": [3, 2, 1, 0]})
    on = {
        "by": lambda: AsOf("q", "q", tolerance=0, by="k"),
        "time": lambda: AsOf("k", "k", tolerance=0),
        "where": lambda: AsOf("q", "q", tolerance=0, where=Where("right", "k", "is distinct from", None)),
    }[role]()
    options = {"left_schema": rows.schema, "right_schema": rows.schema, "sequence": "q", "form": "pairs"}
    join = opened_or_refused(on=on, **options)
    if join is None:
        return
    with join:
        found = pairs_of(join.process(rows, rows)) + pairs_of(join.finish())
    values = column.to_pylist()
    there = [
        3 - at for at in range(4) if (values[at] is not None if role == "where" else alike(values[at], values[at]))
    ]
    assert found == [(at, at) for at in sorted(there)]


DAY = dt.timedelta(days=1)
CONDITIONS = {
    **{op: lambda near, op=op: {"on": Compare("k", op, "k")} for op in ("=", "!=", "<", "<=>", "is distinct from")},
    "band": lambda near: {"on": Band("k", "k", -near, near)},
    "union": lambda near: {"on": AnyOf(Band("k", "k", near, None), Compare("k", "=", "k"))},
    "sum": lambda near: {"on": AllOf(Compare("q", "=", "q"), Band("k", "k", -near, near, sum=True))},
    "key and band": lambda near: {"on": AllOf(Compare("k", "=", "k"), Band("q", "q", 0, 3))},
    "band and key": lambda near: {"on": AllOf(Compare("q", "=", "q"), Band("k", "k", -near, near))},
    "where": lambda near: {"on": AllOf(Compare("q", "=", "q"), Where("left", "k", "is distinct from", None))},
    "within": lambda near: {
        "on": Compare("q", "=", "q"), "within": Within("k", "k", -near, near), "watermark": Watermark(near, near),
    },
    "by": lambda near: {"on": AsOf("q", "q", by="k")},
    "nearest": lambda near: {"on": AsOf("k", "k", "nearest", near), "watermark": Watermark(near, near)},
}  # fmt: skip


@pytest.mark.parametrize("name", list(COLUMNS))
def test_a_column_of_type_null_is_one_of_the_other_type_without_values(name):
    """A file with a header alone, and a column without a value, have such: on either side, in every role."""
    column, none = COLUMNS[name], pa.nulls(4)
    types = pa.types
    number = types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)
    rows, bare = (pa.table({"k": keys, "q": [0, 1, 2, 3]}) for keys in (column, none))
    try:
        typed = pa.table({"k": pa.nulls(4, column.type), "q": [0, 1, 2, 3]})
    except pa.ArrowException:  # of no union
        return
    for condition, of in CONDITIONS.items():
        for turned, more in ((False, {}), (True, {}), (False, {"device": "numpy"}), (True, {"partitions": 2})):
            options = of(1 if number else DAY) | {"form": "pairs"} | more
            options |= {} if condition in ("within", "by", "nearest") else {"left": Rows(9), "right": Rows(9)}
            if condition in ("by", "nearest", "band", "within") and more:
                continue
            found = [
                outcome(*((rows, keys) if turned else (keys, rows)), how="left", **options) for keys in (bare, typed)
            ]
            assert found[0] == found[1], (condition, turned, more)
            assert condition in ("<=>", "is distinct from", "where") or not any(
                right is not None for _, right in found[0] or ()
            )


def outcome(left, right, /, **options):
    """What a join gives, in all; None where it is refused."""
    try:
        with WindowJoin(left_schema=left.schema, right_schema=right.schema, **options) as join:
            return pairs_of(join.process(left, right)) + pairs_of(join.finish())
    except (errors.KeyTypeError, errors.SchemaError, errors.PredicateError):
        return None


@pytest.mark.parametrize("near", [1, DAY])
@pytest.mark.parametrize("condition", list(CONDITIONS))
def test_two_columns_of_type_null(condition, near):
    """Bounds may be numbers or durations, as nothing tells what the columns hold."""
    rows = pa.table({"k": pa.nulls(3), "q": [0, 1, 2]})
    options = CONDITIONS[condition](near) | {"form": "pairs"}
    options |= {} if condition in ("within", "by", "nearest") else {"left": Rows(9), "right": Rows(9)}
    due = [(a, b) for a in range(3) for b in range(3)] if condition == "<=>" else []
    assert sorted(outcome(rows, rows, **options)) == due


def test_more_rows_than_run_ends_can_number():
    """A result of 40,000 rows of a column whose run ends have 16 bits."""
    column = pa.RunEndEncodedArray.from_arrays(pa.array([200], pa.int16()), ["a"])
    rows = pa.table({"k": np.zeros(200, np.int64), "p": column, "q": np.zeros(200, np.int64)})
    with WindowJoin(on=Compare("k", "=", "k"), left=Rows(200), right=Rows(200), device="numpy") as join:
        result = join.process(rows, rows)
    result.validate(full=True)
    assert result.num_rows == 40_000
    assert set(result["p"].to_pylist()) == {"a"}


@pytest.mark.parametrize("name", list(COLUMNS))
def test_lists_of_every_type(name):
    """`Collect` gives the values, or the join is refused before it has a row."""
    values = COLUMNS[name]
    left, right = pa.table({"k": [1, 2]}), pa.table({"k": [1, 1, 1, 1], "p": values})
    given = {"left": Rows(9), "right": Rows(9), "form": "aggregate", "aggregates": Collect("p")}
    try:
        join = WindowJoin(on=Compare("k", "=", "k"), **given, left_schema=left.schema, right_schema=right.schema)
    except errors.KeyTypeError as error:
        assert "'p'" in str(error)  # noqa: PT017
        return
    with join:
        join.process(None, right)
        found = join.process(left, None)
    found.validate(full=True)
    kept = [value for value in values.to_pylist() if value is not None]
    assert found["collect_list(p)"].to_pylist() == [kept, []]


def test_an_extension_type_that_is_not_registered_is_refused_by_a_state(tmp_path):
    column = COLUMNS["extension"]
    with pytest.raises(errors.SchemaError, match=r"column 'p' of the left side .*register_extension_type"):
        join_of(column, state=str(tmp_path))
    pa.register_extension_type(Measure())
    try:
        rows = pa.table({"k": [0, 1, 2, 3], "p": column, "q": [3, 2, 1, 0]})
        with join_of(column, state=str(tmp_path)) as join:
            join.process(rows, rows)
        with join_of(column, state=str(tmp_path)) as join:
            assert join.repeat()["p"].type == column.type
    finally:
        pa.unregister_extension_type("muntin.test.measure")
    with pytest.raises(errors.StateError, match="register_extension_type"):
        join_of(column, state=str(tmp_path))


@pytest.mark.parametrize("nested", [False, True])
def test_a_state_without_schemas_refuses_an_extension_type_that_is_not_registered(nested, tmp_path):
    """Rather than give its storage, unless that is asked for."""
    column = COLUMNS["extension"]
    column = pa.StructArray.from_arrays([column], ["x"]) if nested else column
    rows = pa.table({"k": [0, 1, 2, 3], "p": column})
    options = {"on": Compare("k", "=", "k"), "left": Rows(9), "right": Rows(9), "state": str(tmp_path)}
    pa.register_extension_type(Measure())
    try:
        with WindowJoin(**options) as join:
            found = join.process(rows, rows)
        with WindowJoin(**options) as join:
            assert join.repeat().equals(found)
    finally:
        pa.unregister_extension_type("muntin.test.measure")
    with pytest.raises(errors.StateError, match=r"left column 'p' has the extension type 'muntin.test.measure' in"):
        WindowJoin(**options)
    storage = pa.struct([("x", pa.int32())]) if nested else pa.int32()
    schema = pa.schema([("k", pa.int64()), ("p", storage)])
    with WindowJoin(**options, left_schema=schema, right_schema=schema) as join:
        assert join.repeat()["p"].to_pylist() == found["p"].to_pylist()


def test_views_on_a_device(device):
    column = COLUMNS["string_view"]
    rows = pa.table({"k": [0, 1, 2, 3], "p": column, "q": [0, 1, 2, 3]})
    with join_of(column, device) as join:
        assert join.process(rows, rows)["p_right"].to_pylist() == WORDS


@pytest.mark.parametrize("name", [name for name in COLUMNS if not name.startswith("extension")])
def test_a_payload_of_every_type_in_chunks_of_few_bytes(name, monkeypatch, tmp_path):
    """As if offsets numbered 12 bytes: in a call, in blocks, again from the state, and at the end."""
    monkeypatch.setattr(kept_types, "MAX_CHUNK_BYTES", 12)
    column = COLUMNS[name]
    rows = pa.table(
        {"k": [0, 1, 2, 3], "p": pa.chunked_array([column.slice(0, 1), column.slice(1)]), "q": [3, 2, 1, 0]}
    )
    values = dict(enumerate(column.to_pylist()))
    other = pa.table({"k": [9, 1, 0, 2], "p": column, "q": [5, 4, 4, 7]})
    due = [(2, values[2], values[3]), (1, values[1], values[1]), (0, values[0], values[2])]

    def listed(table):
        table.validate(full=True)
        assert table["p"].type == table["p_right"].type == column.type
        return list(zip(*(table[of].to_pylist() for of in ("k", "p", "p_right")), strict=True))

    with join_of(column, how="left", state=str(tmp_path)) as join:
        assert join.process(rows, None).num_rows == 0
        found = join.process(None, other)
        assert sorted(listed(found), key=lambda row: -row[0]) == due
    with join_of(column, how="left", state=str(tmp_path)) as join:
        assert listed(join.repeat()) == listed(found)
        late = other.set_column(2, "q", pa.array([8, 8, 8, 8]))
        again = [row for block in join.process_blocks(None, late, block_bytes=1) for row in listed(block)]
        assert sorted(again, key=lambda row: -row[0]) == due
        assert listed(join.finish()) == [(3, values[3], None)]


FIVE = pa.ListArray.from_arrays(pa.array([0, 5, 6, 6, 6], pa.int32()), pa.array(range(6)))
NO_LISTS = pa.ListArray.from_arrays(pa.array([5], pa.int32()), FIVE.values)
NO_UNIONS = pa.UnionArray.from_sparse(UNIONS[0][:0], [child[:0] for child in UNIONS[1]])
EMPTY = {
    **{name: (column, column.slice(3, 0)) for name, column in COLUMNS.items() if not name.startswith("extension")},
    "offsets from 5": (FIVE, NO_LISTS),
    "offsets from 5, in lists": (
        pa.ListArray.from_arrays(pa.array([0, 1, 2, 2, 4], pa.int32()), FIVE),
        pa.ListArray.from_arrays(pa.array([0, 0, 0, 0], pa.int32()), NO_LISTS),
    ),
    "empty union": (COLUMNS["sparse union"], NO_UNIONS),
    "union of empty unions": (
        pa.UnionArray.from_dense(
            pa.array([1, 0, 0, 1], pa.int8()),
            pa.array([0, 0, 1, 1], pa.int32()),
            [COLUMNS["sparse union"], COLUMNS["int8"]],
        ),
        pa.UnionArray.from_dense(
            pa.array([1, 1], pa.int8()), pa.array([0, 1], pa.int32()), [NO_UNIONS, COLUMNS["int8"]]
        ),
    ),
    "list of no unions": (
        pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), COLUMNS["sparse union"]),
        pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), COLUMNS["sparse union"]),
    ),
}


@pytest.mark.parametrize("name", list(EMPTY))
def test_chunks_of_no_values(name, tmp_path):
    """In a call, from the state, and in calls after that."""
    column, without = EMPTY[name]
    p = pa.chunked_array([column.slice(0, 2), without, column.slice(2)])
    rows = pa.table({"k": range(len(p)), "p": p, "q": range(len(p))})
    with join_of(column, state=str(tmp_path)) as join:
        found = join.process(rows, rows)
    assert found["p"].to_pylist() == found["p_right"].to_pylist() == p.to_pylist()
    for later in (1, 2):
        again = rows.set_column(2, "q", pa.array([100 * later] * len(p)))
        with join_of(column, state=str(tmp_path)) as join:
            assert join.repeat()["p"].to_pylist() == found["p"].to_pylist()
            found = join.process(again.slice(0, 0), again)
        found.validate(full=True)
        assert found["p"].to_pylist() == found["p_right"].to_pylist() == p.to_pylist()


@pytest.mark.parametrize("name", [name for name in COLUMNS if not name.startswith("extension")])
@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a state"])
def test_a_table_of_every_type(name, kept, tmp_path):
    column = COLUMNS[name]
    stream, table = pa.table({"k": [0, 1, 2, 3]}), pa.table({"k": [0, 1, 2, 3], "p": column})
    state = str(tmp_path) if kept else None
    on = Compare("k", "=", "k")
    with WindowJoin(on=on, right_table=table, left_schema=stream.schema, state=state) as join:
        found = join.process(stream)
        assert found["p"].type == column.type
        by_key = dict(zip(found["k"].to_pylist(), found["p"].to_pylist(), strict=True))
        assert by_key == dict(enumerate(column.to_pylist()))


TAKEN = {
    "plain": lambda words: words,
    "struct": lambda words: pa.StructArray.from_arrays([words], ["x"]),
    "list": lambda words: pa.ListArray.from_arrays(pa.array(range(len(words) + 1), pa.int32()), words),
    "map": lambda words: pa.MapArray.from_arrays(
        pa.array(range(len(words) + 1), pa.int32()), pa.array(["x"] * len(words)), words
    ),
    "list of structs": lambda words: pa.ListArray.from_arrays(
        pa.array(range(len(words) + 1), pa.int32()), pa.StructArray.from_arrays([words], ["x"])
    ),
}
JOINS = {
    "rows": {"on": Band("k", "k", 0, 2), "left": Rows(1000), "right": Rows(1000), "order": "inner"},
    "full": {"on": Compare("k", "=", "k"), "left": Rows(70), "right": Rows(70), "how": "full", "order": "inner"},
    "equal words": {"on": Compare("w", "=", "w"), "left": Rows(500), "right": Rows(500), "order": "inner"},
    "times": {"on": Band("k", "k", 0, 1), "within": Within("t", "t", 0, 200), "order": "inner"},
    "semi": {"on": Compare("k", "=", "k"), "left": Rows(1000), "right": Rows(1000), "how": "left_semi"},
    "itself": {"on": Band("k", "k", 0, 1), "left": Rows(500), "right": Rows(500), "self_join": True, "order": "inner"},
    "sequence": {"on": Band("k", "k", 0, 2), "left": Rows(999), "right": Rows(999), "sequence": "t", "order": "inner"},
    "as-of": {"on": AsOf("t", "t", "backward", 300), "how": "left", "watermark": Watermark(left=0, right=0, lag=0)},
    "close": {
        "on": Compare("k", "=", "k"), "within": Within("t", "t", 0, 9), "form": "aggregate", "at": "close",
        "aggregates": [Count()], "watermark": Watermark(left=0, right=0, lag=0),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", list(JOINS))
@pytest.mark.parametrize(("index", "taken"), [*((pa.int8(), name) for name in TAKEN), (pa.uint8(), "plain")], ids=str)
def test_dictionaries_outgrow_their_indices(name, index, taken, tmp_path):
    """Batches with dictionaries of 90 words each: as the same join of plain words, in one type from the first on."""
    state = tmp_path if name != "close" and taken in ("plain", "list") else None
    schemas, found = joined(JOINS[name], index, taken, state)
    assert len(schemas) == 1
    _, due = joined(JOINS[name], None, taken)
    assert found == due
    assert due


def joined(spec, index, taken, state=None):
    """The schemas and rows of six calls and the end; with a state the join is opened again after each."""
    schemas, found = set(), []

    def open_join():
        return WindowJoin(**spec, device="cpu", **({"state": str(state)} if state else {}))

    join = open_join()
    for call in range(6):
        sides = [words(index, taken, call) if call in (0, 2 + side, 4 + side) else None for side in range(2)]
        result = join.process(*sides[: 1 if spec.get("self_join") else 2])
        result.validate(full=True)
        if state:
            join.close()
            join = open_join()
            assert join.repeat().to_pylist() == result.to_pylist()
        schemas.add(result.schema)
        found += result.to_pylist()
    found += join.finish().to_pylist()
    join.close()
    return schemas, found


def words(index, taken, call):
    """A batch of 90 rows with texts of which some are those of other batches."""
    column = pa.array([f"word {(n + 60 * call) % 250}" for n in range(90)])
    if index is not None:
        column = column.dictionary_encode().cast(pa.dictionary(index, pa.string()))
    numbers = np.arange(90)
    times = 90 * call + numbers
    return pa.table({"k": (numbers * 7 + call) % 90, "t": times, "w": column, "p": TAKEN[taken](column)})


FAR = 2**70


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us")], ids=str)
@pytest.mark.parametrize("bounds", [(-FAR, 0), (0, FAR), (-FAR, FAR), (FAR, FAR + 1), (-FAR, -FAR)])
def test_time_bounds_beyond_all_times(bounds, kind, device, time_windows):
    """They bound nothing, or leave nothing: no two times are so far apart. A delay that long makes no row late."""
    lengths = [*bounds, FAR]
    if kind != pa.int64():
        lengths = [f"{length} microseconds" for length in lengths]
    number = [-(2**63), 0, 2**63 - 1]
    rows = pa.table({"k": [1, 1, 1], "t": pa.array(number, pa.int64()).cast(kind)})
    with WindowJoin(
        on=Compare("k", "=", "k"),
        within=Within("t", "t", *lengths[:2]),
        watermark=Watermark(left=lengths[2], lag=0),
        form="pairs",
        device=device,
    ) as join:
        found = []
        for _ in range(2):
            found += zip(*join.process(rows, rows).to_pydict().values(), strict=True)
        assert join.stats.late_left == 0
    number *= 2
    due = [(a, b) for a in range(6) for b in range(6) if bounds[0] <= number[b] - number[a] <= bounds[1]]
    assert sorted(found) == due


@pytest.mark.parametrize("initial", [FAR, -FAR])
def test_a_first_watermark_beyond_all_times(initial, device, time_windows):
    rows = pa.table({"k": [1, 1], "t": [-(2**63), 2**63 - 1]})
    with WindowJoin(
        on=Compare("k", "=", "k"), within=Within("t", "t", 0, 0), form="pairs", device=device,
        watermark=Watermark(left=FAR, right=FAR, initial=initial, lag=0),
    ) as join:  # fmt: skip
        found = join.process(rows, rows).num_rows + join.process(rows, rows).num_rows
        assert join.stats.late_left == (4 if initial > 0 else 0)
    assert found == (0 if initial > 0 else 8)


def test_watermarks_that_are_none():
    for wrong in ({"lag": FAR}, {"lag": -1}, {"lag": 1.5}, {"initial": 0.5}, {"initial": "0"}):
        with pytest.raises(errors.WindowError, match=next(iter(wrong))):
            Watermark(left=1, **wrong)
    assert Watermark(left=dt.timedelta(0), initial=0, lag=1)


# Through SQL

#: What `COLUMNS` has not.
MADE = {
    "list of named values": pa.array([[1], None, [], [2]], pa.list_(pa.field("x", pa.int8()))),
    "list view of dictionaries": pa.array([["a"], None, ["b"], []], pa.list_view(pa.dictionary(pa.int8(), pa.utf8()))),
    "list of half floats": pa.array([[1.5], None, [], [None]], pa.list_(pa.float16())),
    "struct of no lists": pa.array([{"x": []}, None, {"x": []}, {"x": []}], pa.struct([("x", pa.list_(pa.int8(), 0))])),
    "dictionary of times with NULL": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 0], pa.uint8()), pa.array([1, None], pa.timestamp("us"))
    ),
    "union with type codes of its own": pa.UnionArray.from_sparse(
        pa.array([5, 3, 5, 3], pa.int8()), [pa.array(range(4)), pa.array(list("abcd"))], ["n", "s"], [3, 5]
    ),
    "union with type codes in reverse": pa.UnionArray.from_sparse(
        pa.array([1, 0, 1, 0], pa.int8()), [pa.array(range(4)), pa.array(list("abcd"))], ["n", "s"], [1, 0]
    ),
    "struct of duration in an extension": pa.StructArray.from_arrays([measure([1, 2, 3, 4], pa.duration("ns"))], ["x"]),
    "map of equal keys": pa.array([[("a", 1), ("a", 2)]] * 4, pa.map_(pa.string(), pa.int8())),
}


@pytest.mark.parametrize("name", [*COLUMNS, *MADE])
def test_columns_of_every_type_come_back_from_duckdb_or_are_refused(name):
    """By the name of the column: what DuckDB has not, and what it would end with an error of its own."""
    column = (COLUMNS | MADE)[name]
    rows = pa.table({"id": [1, 2, 3, 4], "c": column})
    try:
        found = sql("SELECT a.c FROM a JOIN b USING (id) ORDER BY id * 2", a=rows, b=rows.select(["id"]))["c"]
    except errors.SqlError as error:
        assert "column 'a_c' " in str(error)  # noqa: PT017
        assert "INTERNAL" not in str(error)  # noqa: PT017
        return
    assert str(found.type) == str(column.type)
    assert found.type == column.type
    assert found.to_pylist() == column.to_pylist()
