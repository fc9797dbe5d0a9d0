"""A daemon on SplitJoin: each query has a board, and what one of them loses is told by name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon, FlightOptions
from muntin.host.errors import CapacityError, IncompleteError, MuntinError
from tests.host.daemon.conftest import LEFT, RIGHT, SPEC, TOKEN, expected, open_query, process


@pytest.fixture
def daemon(directory: Path) -> Iterator[Daemon]:
    daemon = Daemon("sim:splitjoin-model", directory / "sock", flight=FlightOptions("127.0.0.1", 0, TOKEN))
    yield daemon
    daemon.stop()


def test_queries_do_not_share_a_board(either: DaemonClient, daemon: Daemon) -> None:
    open_query(either, "one")
    assert process(either, 0, query="one") == expected([0])
    (board,) = daemon.service.device._boards
    open_query(either, "other")
    assert process(either, 0, query="other") == expected([0])
    assert process(either, 1, query="one") == expected([0, 1])
    board._driver._link.frozen.add(5)
    with pytest.raises(IncompleteError, match="device sim:splitjoin-model: join core 5 stopped answering") as broken:
        process(either, 2, query="one")
    assert broken.value.core == 5
    with pytest.raises(MuntinError):
        process(either, 3, query="one")
    assert process(either, 1, query="other") == expected([0, 1])


def test_a_window_beyond_the_capacity_is_refused_at_the_start(either: DaemonClient) -> None:
    spec = type(SPEC)(on=SPEC.on, left=type(SPEC.left)(16_385), right=SPEC.right)
    with pytest.raises(CapacityError, match="its capacity is 16,384 rows") as refused:
        either.open_query("large", spec, LEFT, RIGHT, streaming=True)
    assert (refused.value.needed, refused.value.available) == (16_385, 16_384)
