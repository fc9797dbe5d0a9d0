"""What users import: names, docstrings and types, and that `import muntin` loads no more than it needs."""

import dataclasses
import doctest
import importlib
import importlib.metadata
import inspect
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import muntin
from muntin import JoinSpec
from muntin.host import errors
from muntin.host.cli import main
from muntin.kafka import KafkaJoin

ROOT = Path(__file__).parents[1]
#: What each public module has: no name stands in two.
PUBLIC = {
    "muntin": """
        Aggregate AllOf AnyOf ArgMax ArgMin AsOf Band Collect Compare Count First JoinSpec Last Max Mean Min Partitions
        Quantile Rows Stats StdDev Sum Var Watermark Where WindowJoin Within join set_threads sql sql_explain sql_spec
        start_tracing""",
    "muntin.engine": "EngineKind Inner Outer Shared SplitJoin Steps",
    "muntin.errors": """AuthError CapacityError ConnectionLostError DaemonError DeviceError IncompleteError KafkaError
        KernelError KeyTypeError LimitError LinkDamagedError LinkError LinkIdentityError LinkLostError LinkPortError
        LinkRefusedError LinkSilentError MemoryStartError MuntinError OrderError PredicateError ProtocolError QueryError
        RecordError ReplayError ResultTooLargeError SchemaError SqlError StateError StateLostError StateTakenError
        SumOverflowError UnknownQueryError UnsupportedError WindowError""",
    "muntin.hardware": "Device DeviceInfo list_devices open_device",
    "muntin.index": """Auto BChain BPlusTree BiSort BurstTrie CsbTree IbChain ImTree Index Judy PimTree RadixTree
        RangeIndex RangeMirror RapTable Slices SortedRuns SpoJoin TimeKeyed WibTree open_window_index""",
    "muntin.kafka": "Arrow Avro Format Json KafkaJoin",
    "muntin.spark": """BatchProgress JavaNotFoundError JoinListener JoinProgress WorkerPythonError ensure_java listen
        window_join""",
}
TIERS = ["engine", "errors", "hardware", "index"]
NAMES = [(module, name) for module, names in PUBLIC.items() for name in names.split()]

# Spark, drivers, and what only hardware and its simulation need.
NOT_LOADED = {
    "pyspark",
    "pandas",
    "pyopencl",
    "amaranth",
    "serial",
    "litedram",
    "grpc",
    "duckdb",
    "confluent_kafka",
    "fastavro",
    "matplotlib",
    "sqlglot",
    "opentelemetry",
}

USE = """
from typing import assert_type

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from muntin import AllOf, AnyOf, AsOf, Band, Compare, JoinSpec, Rows, Stats, WindowJoin, Within, join, sql
from muntin.errors import CapacityError
from muntin.hardware import DeviceInfo, list_devices
from muntin.index import PimTree, open_window_index
from muntin.kafka import KafkaJoin
from muntin.spark import window_join

spec = JoinSpec(on=AnyOf(Band("a", "b", -1, 1), Compare("a", "<", "b")), left=Rows(10), right=Rows(20))
with WindowJoin.from_spec(spec, device="numpy") as running:
    assert_type(running, WindowJoin)
    assert_type(running.stats, Stats)
    assert_type(running.stats.matches, int)
assert_type(list_devices(), list[DeviceInfo])
assert_type(CapacityError("full", 2, 1).needed, int | None)
assert_type(Band("a", "b") & Compare("a", "=", "b"), AllOf)
assert_type(Band("a", "b", 0, 1, closed="left") | Band("a", "b", 5), AnyOf)

frame, batch = pl.DataFrame({"a": [1]}), pa.record_batch({"a": [1]})
assert_type(join(frame, frame, "a", "left", within=("t", "t", -1, 1)), pl.DataFrame)
assert_type(sql("SELECT * FROM l JOIN r ON l.a = r.a", l=frame, r=frame, suffix="_r", device="numpy"), pl.DataFrame)
join(frame, batch, on=["a"])
within = Within("t", "t", 0, 1)
window = WindowJoin(on="a", within=within, left_schema=frame.schema, right_schema=batch, index=PimTree())
window.process(frame, batch)
window.push(iter([batch, frame]))
open_window_index("slices", span=5).insert(frame["a"], batch.column(0))


def spark(stream: DataFrame) -> None:
    assert_type(sql("SELECT * FROM l JOIN r ON l.a = r.a", l=stream, r=stream, state="/state", name="q"), DataFrame)


"""

WRONG = {
    'Band("a")': "call-arg",
    'Band("a", "b", closed="outer")': "arg-type",
    'Band("a", "b") & "c"': "operator",
    'Rows("10")': "arg-type",
    'JoinSpec(on=Band("a", "b"), windows=3)': "call-arg",
    "WindowJoin(wihtin=3)": "call-arg",
    'WindowJoin(on=Band("a", "b"), wihtin=3)': "call-arg",
    'WindowJoin(on=Band("a", "b"), left="10")': "arg-type",
    'WindowJoin(on=Band("a", "b"), left_schema="a int")': "arg-type",
    "WindowJoin.from_spec(spec, devise='cpu')": "call-arg",
    "running.stats.macthes": "attr-defined",
    'running.process("x")': "arg-type",
    "running.push([1])": "list-item",
    "running.process(frame, whole=None)": "call-arg",
    'join(frame, "x", "a")': "arg-type",
    'join(frame, frame, "a", form="ranges")': "call-overload",
    'sql("SELECT 1", l=3)': "call-overload",
    'sql("SELECT 1", l=frame, watermark=3)': "call-overload",
    'KafkaJoin(("a", "b"), "k", servers="x", output=print, wihtin=3)': "call-arg",
    "window_join()": "call-arg",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_these(module):
    submodules = TIERS if module == "muntin" else []
    assert sorted(importlib.import_module(module).__all__) == sorted([*PUBLIC[module].split(), *submodules])


@pytest.mark.parametrize("module", ["muntin", "muntin.engine", "muntin.errors", "muntin.hardware", "muntin.index"])
def test_examples_of_docstrings_run(module):
    """Each by itself, as a reader would paste it. Of errors their base has one; those of Spark run with its tests."""
    for name in PUBLIC[module].split() if module != "muntin.errors" else ["MuntinError"]:
        value = getattr(importlib.import_module(module), name)
        example = doctest.DocTestParser().get_doctest(inspect.getdoc(value), {}, f"{module}.{name}", None, 0)
        assert example.examples, f"{module}.{name} has no example"
        said = io.StringIO()
        assert doctest.DocTestRunner(verbose=False).run(example, out=said.write).failed == 0, said.getvalue()


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_name_is_there_and_documented(module, name):
    value = getattr(importlib.import_module(module), name)
    assert inspect.getdoc(value), f"{module}.{name} has no docstring"
    if module != "muntin.spark":
        assert (value.__module__, value.__qualname__) == (module, name)
        assert pickle.loads(pickle.dumps(value)) is value


def test_every_error_that_can_be_caught_by_name_is_public():
    elsewhere = {"JavaNotFoundError", "WorkerPythonError", "CutShortError"}  # Spark, and the wire
    assert set(errors._classes()) - elsewhere == set(PUBLIC["muntin.errors"].split())


def test_signatures_have_the_parameters_of_a_specification():
    """With its defaults; those that other parameters decide aside."""
    fields = {field.name: field.default for field in dataclasses.fields(JoinSpec)}
    decided = {muntin.WindowJoin: {"static", "keys"}}
    decided[KafkaJoin] = {"static", "keys", "capacity", "self_join"}
    decided[muntin.join] = {
        *("static", "keys", "left", "right", "watermark", "late", "capacity", "self_join", "itself", "at")
    }
    for call, others in decided.items():
        given = inspect.signature(call).parameters
        assert all(parameter.kind != parameter.VAR_KEYWORD for parameter in given.values())
        assert {name: given[name].default for name in fields.keys() - others - {"on"}} == {
            name: fields[name] for name in fields.keys() - others - {"on"}
        }


def test_import_loads_neither_spark_nor_a_driver():
    script = "import muntin, sys; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not NOT_LOADED & set(loaded.stdout.split())


def test_a_folder_has_one_name():
    """Modules that are loaded twice, as `host` and as `muntin.host`, would have two of each class."""
    for folder in ("contract", "host", "hw", "sim", "pyspark_bridge"):
        with pytest.raises(ImportError, match=f"import muntin.{folder}, not {folder}"):
            importlib.import_module(folder)


def test_a_join_on_the_cpu_loads_nothing_of_hardware():
    script = (
        "import sys, muntin, muntin.host.cli; muntin.WindowJoin(on=muntin.Band('a', 'b', 0, 1)).close();"
        "folders = ('muntin.hw', 'muntin.sim', 'muntin.pyspark_bridge');"
        "print(*(name for name in sys.modules if name.startswith(folders)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "\n"


def test_version():
    assert muntin.__version__ == importlib.metadata.version("muntin")
    told = CliRunner().invoke(main, ["--version"])
    assert (told.exit_code, told.output) == (0, f"muntin {muntin.__version__}\n")


def test_types_from_outside(tmp_path):
    """A user's program is checked against the types of Muntin, and wrong uses are found in their lines."""
    program = tmp_path / "program.py"
    good = len(USE.splitlines())
    program.write_text(USE + "\n".join(WRONG) + "\n")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--config-file=", str(program)],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in checked.stdout.splitlines() if ": error: " in line]
    found = {int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]") for line in told}
    assert [line for line in told if int(line.split(":")[1]) < good] == []
    assert found == {good + at: code for at, code in enumerate(WRONG.values(), 1)}, checked.stdout + checked.stderr


def test_types_travel_with_the_packages():
    """Without the marker a type checker takes a package, and what it passes on, for untyped."""
    assert all((ROOT / package / "py.typed").is_file() for package in ("muntin", "host", "pyspark_bridge"))
