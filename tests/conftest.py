"""Seeds and devices for the whole test suite."""

import gc
import importlib.abc
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, settings

from muntin.hardware import open_device
from muntin.host.errors import DeviceError
from tests.conformance import streams
from tests.conformance.devices import DEVICES, DeviceCase

# Time never decides a test: machines are shared. Examples are the same in each run, but for those of --full.
settings.register_profile("muntin", deadline=None, derandomize=True)
settings.register_profile("full", deadline=None)
# For tests/mutants.py, which asks whether a test fails and not by what least example.
settings.register_profile("mutants", deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile("muntin")


class OnePackage(importlib.abc.MetaPathFinder):
    """Refuses the folders at the top as packages of their own: a module would be loaded twice, by two names."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in ("contract", "host", "hw", "sim", "pyspark_bridge"):
            raise ImportError(f"import muntin.{name}, not {name}")


sys.meta_path.insert(0, OnePackage())

SEED = int(os.environ.get("MUNTIN_TEST_SEED", "20240607"))
REQUIRED = [name for name in os.environ.get("MUNTIN_TEST_DEVICES", "").split(",") if name]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        help="also run the full products (marker `full`), and all of the suite on all devices; some hours",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--full"):
        config.option.timeout = 0
        settings.load_profile("full")
        streams.ROWS_ALONE = sys.maxsize
    config.addinivalue_line("markers", "full: the full product of a suite that is sampled otherwise; needs --full")
    config.addinivalue_line(
        "markers", "long: minutes in one test; these start first, so that no core waits for one at the end"
    )
    config.addinivalue_line("markers", "main: what older versions of Spark run too in each run of the tests")


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Makes no items of whole tests that are left out: their products have hundreds of thousands."""
    marked = any(mark.name == "full" for mark in getattr(obj, "pytestmark", ()))
    return [] if marked and not collector.config.getoption("--full") else None


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # tests are many objects, which each search for garbage would look at again


def pytest_unconfigure() -> None:
    gc.unfreeze()  # the core and DuckDB report what is left as the process ends


def pytest_report_header() -> str:
    return f"MUNTIN_TEST_SEED={SEED} MUNTIN_TEST_DEVICES={','.join(REQUIRED) or '(skip what is absent)'}"


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Makes no items of cases that are left out, which are four times as many as those that run."""
    yield
    kept = [call for call in metafunc._calls if not is_left_out(metafunc.definition, call)]
    # A test without any call would be one item without values: one call stays, to be deselected.
    metafunc._calls = kept or metafunc._calls[:1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {item for item in items if is_left_out(item, getattr(item, "callspec", None))}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores, as tests wait for Spark, daemons and simulators that they have started."""
    given = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(given) if given else cores + 2


def is_left_out(test: pytest.Item, call: Any) -> bool:
    """Whether a case of a test is not run: marked `full` without --full, or on a device that it is left out on."""
    full = test.config.getoption("--full")
    marks = [*test.iter_markers(), *(call.marks if call else [])]
    if not full and any(mark.name == "full" for mark in marks):
        return True
    case = call.params.get("device_case") if call else None
    name = test.nodeid.rpartition("tests/")[2].split("/", 1)[-1].partition("[")[0]
    return isinstance(case, DeviceCase) and case.is_left_out(f"{name}[{call.id}]", full)


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run, from MUNTIN_TEST_SEED; every test derives its own from it."""
    return SEED


@pytest.fixture(scope="session", params=DEVICES, ids=lambda case: case.name)
def device_case(request: pytest.FixtureRequest) -> DeviceCase:
    """A device of the list that is present; an absent one skips with its reason.

    MUNTIN_TEST_DEVICES names devices that must be there: their absence fails.
    """
    case = request.param
    try:
        open_device(case.name)
    except DeviceError as error:
        if case.name in REQUIRED:
            raise
        pytest.skip(f"device {case.name}: {error}")
    return case


@pytest.fixture(scope="session")
def device(device_case: DeviceCase) -> object:
    """An open device, shared by the tests of a session."""
    return open_device(device_case.name)


@pytest.fixture(params=["auto", "bisort", "sorted_array", "slices", "rap_table", "wib_tree"])
def index(request: pytest.FixtureRequest, device_case: DeviceCase) -> str:
    """An index that the device carries out."""
    if request.param not in device_case.indexes:
        pytest.skip(f"device {device_case.name}: no index {request.param}")
    return request.param


@pytest.fixture
def time_windows(device_case: DeviceCase) -> None:
    """Skips on a device without time windows."""
    if not device_case.time_windows:
        pytest.skip(f"device {device_case.name}: no time windows")
