"""Clients that are dropped without `close()`, with a result that is read, begun, or never asked for."""

import gc
import warnings

import pytest

from muntin.host.daemon import DaemonClient
from tests.host.daemon.conftest import TOKEN, batch, open_query


@pytest.mark.parametrize("front", ["unix", "flight"])
def test_a_dropped_client_closes_its_connections(daemon, front, monkeypatch):
    address, token = (daemon.addresses[0], None) if front == "unix" else (daemon.addresses[1], TOKEN)
    ignored = []
    monkeypatch.setattr("sys.unraisablehook", ignored.append)
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            for number in range(6):
                client = DaemonClient(address, token, timeout=120)
                open_query(client, streaming=False)
                result = client.process("q", 0, batch(0))
                if number % 3 == 1:
                    next(result)
                elif number % 3 == 2:
                    list(result)
                del client, result
    finally:
        gc.enable()
    assert not ignored
