"""Whether a query could ever be opened is told without taking anything, and whatever else is open."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from muntin import Band, JoinSpec, Rows, WindowJoin, Within
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon, FlightOptions
from muntin.host.devices import Device
from muntin.host.devices.device import DeviceInfo
from muntin.host.devices.numpy_device import NumpyDevice
from muntin.host.errors import (
    CapacityError,
    DeviceError,
    KeyTypeError,
    LimitError,
    MuntinError,
    QueryError,
    SchemaError,
    StateError,
    UnsupportedError,
)
from muntin.host.fpga.device import FpgaDevice
from muntin.host.state import check_place, local_folder
from muntin.sim.models.splitjoin_kernel import SplitJoinKernelModel
from tests.host.daemon.conftest import LEFT, RIGHT, SPEC, TOKEN, expected, open_query, process

LARGE = JoinSpec(on=SPEC.on, left=Rows(1_000_000), right=Rows(1_000_000))
BUILD = dataclasses.replace(SplitJoinParameters.preset("tiny"), cores=4, rows=32, key_bits=64, time_bits=0)


def one_board() -> FpgaDevice:
    """A device that serves one join."""
    info = DeviceInfo("test:splitjoin", "test", "", 1 << 16)
    return FpgaDevice(info, {"splitjoin": BUILD}, lambda _: SplitJoinKernelModel(BUILD, 1 << 16), boards=1)


@pytest.fixture
def on(directory: Path) -> Iterator[Callable[[Device], Daemon]]:
    """Starts daemons on a device."""
    daemons: list[Daemon] = []

    def start(device: Device) -> Daemon:
        flight = FlightOptions("127.0.0.1", 0, TOKEN)
        daemons.append(Daemon(device, directory / f"{len(daemons)}.sock", flight=flight))  # type: ignore[arg-type]
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.stop()


@pytest.fixture(params=["unix", "flight"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[Daemon], DaemonClient]]:
    """Connects to a daemon, over each front end in turn."""
    clients: list[DaemonClient] = []

    def connect(daemon: Daemon) -> DaemonClient:
        address, token = (daemon.addresses[0], None) if request.param == "unix" else (daemon.addresses[1], TOKEN)
        clients.append(DaemonClient(address, token, timeout=120))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def bytes_of(spec: JoinSpec) -> int:
    """Device memory that a join takes."""
    with WindowJoin.from_spec(spec, device="numpy", left_schema=LEFT, right_schema=RIGHT) as join:
        return join.stats.device_bytes


def test_nothing_is_taken(either: DaemonClient, daemon: Daemon) -> None:
    assert either.check(SPEC, LEFT, RIGHT) == SPEC.output_schema(LEFT, RIGHT)
    assert either.status()["queries"] == {}
    assert daemon.service.device.used_bytes == 0


def test_what_makes_no_sense_is_refused(either: DaemonClient) -> None:
    with pytest.raises(SchemaError, match="'limit'"):
        either.check(SPEC, RIGHT, RIGHT)
    with pytest.raises(KeyTypeError):
        either.check(SPEC, pa.schema([("limit", pa.string())]), RIGHT)


def test_a_window_of_more_than_half_of_the_device(
    on: Callable[[Device], Daemon], connect: Callable[[Daemon], DaemonClient]
) -> None:
    memory = bytes_of(LARGE) + 1000
    daemon = on(NumpyDevice(memory))
    client = connect(daemon)
    for _ in range(2):
        client.check(LARGE, LEFT, RIGHT)
        client.open_query("q", LARGE, LEFT, RIGHT)
    with pytest.raises(CapacityError):
        client.open_query("other", LARGE, LEFT, RIGHT)
    larger = dataclasses.replace(LARGE, right=Rows(1_001_000))
    with pytest.raises(CapacityError, match=f"of {memory:,}: use smaller windows") as refused:
        client.check(larger, LEFT, RIGHT)
    assert refused.value.needed > refused.value.available


def test_a_full_table_of_queries(start: Callable[..., Daemon]) -> None:
    with DaemonClient(start(max_queries=1).addresses[0], timeout=120) as client:
        open_query(client)
        client.check(SPEC, LEFT, RIGHT)
        with pytest.raises(LimitError):
            open_query(client, "other")


def test_a_join_of_several_windows(
    on: Callable[[Device], Daemon], connect: Callable[[Daemon], DaemonClient], tmp_path: Path
) -> None:
    """They are open at once, under their names, and each has its state."""
    client = connect(on(NumpyDevice(2 * bytes_of(LARGE) + 1000)))
    two = {"join/0-of-2": LARGE, "join/1-of-2": LARGE}
    for _ in range(2):
        assert client.check(LARGE, LEFT, RIGHT, windows=two) == LARGE.output_schema(LEFT, RIGHT)
    state = tmp_path / "state"
    client.check(LARGE, LEFT, RIGHT, windows=two, state=str(state))
    assert not state.exists()
    for windows, error, text in (
        ({**two, "third": LARGE}, CapacityError, "the left window needs"),
        ({**two, "third": dataclasses.replace(SPEC, on=Band("gone", "price", 0, 1))}, SchemaError, "'gone'"),
        ({f"{at}-of-65": SPEC for at in range(65)}, LimitError, "65 windows"),
        ({"line\nbreak": SPEC}, QueryError, "printable"),
        ({"join/" * 40: SPEC}, StateError, "shorter name"),
    ):
        with pytest.raises(error, match=text):
            client.check(SPEC, LEFT, RIGHT, windows=windows, state=str(state))
    with pytest.raises(StateError, match="ftp://"):
        client.check(SPEC, LEFT, RIGHT, state="ftp://host/folder")
    assert client.status()["queries"] == {}


def test_a_daemon_with_state_where_none_can_be(directory: Path) -> None:
    with pytest.raises(StateError, match="dbfs:/folder"):
        Daemon("numpy", directory / "daemon.sock", state="dbfs:/folder")


def test_folders_by_their_addresses() -> None:
    assert local_folder(Path("/state of #1, 50%").as_uri()) == "/state of #1, 50%"
    for place in ("file:///state#1", "file:///state?1", "file:state", "file://elsewhere/state"):
        with pytest.raises(StateError, match="no folder of this machine"):
            local_folder(place)


def test_state_below_the_daemons_folder(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    for given in ("below", f"file:{directory}/below"):
        daemon = Daemon("numpy", directory / "daemon.sock", state=given)
        try:
            assert daemon.service.status()["state"] == str(directory / "below")
        finally:
            daemon.stop()


def test_an_object_store_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its account may be in that one's environment alone; blobs have the names that an address says."""
    pytest.importorskip("obstore")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    check_place("az://container/windows", ["query%2Fjoin"], here=False)
    check_place("s3://bucket/windows", ["query%2F" + "%C3%A4" * 200])
    for place, name, here, text in (
        ("az://container/windows", "query", True, "Account must be specified"),
        ("hdfs://node/windows", "query", False, "hdfs://node/windows"),
        ("s3://bucket/" + "p" * 600, "%C3%A4" * 200, True, "shorter name"),
        ("s3://bucket/windows", "query%2F..", False, "'query/..'.*another name"),
    ):
        with pytest.raises(StateError, match=text):
            check_place(place, [name], here=here)


def test_a_device_that_serves_one_join(
    on: Callable[[Device], Daemon], connect: Callable[[Daemon], DaemonClient]
) -> None:
    daemon = on(one_board())
    client = connect(daemon)
    client.check(SPEC, LEFT, RIGHT)
    with pytest.raises(DeviceError, match="serves one join"):
        client.check(SPEC, LEFT, RIGHT, windows={"one": SPEC, "other": SPEC})
    assert not daemon.service.device._boards  # type: ignore[attr-defined]
    open_query(client)
    process(client, 0)
    client.check(SPEC, LEFT, RIGHT)
    with pytest.raises(DeviceError, match="serves one join"):
        open_query(client, "other")
    assert process(client, 1) == expected([0, 1])


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"left": Rows(129)}, CapacityError, "its capacity is 128 rows"),
        ({"index": "bisort"}, UnsupportedError, "no index .bisort."),
        ({"left": None, "right": None, "within": Within("limit", "price", 0, 1)}, UnsupportedError, "time_bits=64"),
        ({"on": Band("limit", "price", 0, 1)}, None, ""),
    ],
)
def test_what_a_kernel_cannot_do(
    on: Callable[[Device], Daemon], change: dict[str, object], error: type[MuntinError] | None, text: str
) -> None:
    spec = dataclasses.replace(SPEC, **change)
    left, right = (pa.schema([(name, pa.int64())]) for name in ("limit", "price"))
    with DaemonClient(on(one_board()).addresses[0], timeout=120) as client:
        if error is None:
            client.check(spec, left, right)
        else:
            with pytest.raises(error, match=text):
                client.check(spec, left, right)
