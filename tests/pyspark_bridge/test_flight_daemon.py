"""A daemon on another host, as far as one machine can play it: Arrow Flight with a token."""

import socket

import pytest

from muntin import Band, Rows
from muntin.host import errors
from muntin.host.daemon import start_private
from muntin.pyspark_bridge import window_join
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks
from tests.pyspark_bridge.test_streaming import expected, pairs

OPTIONS = {"on": Band("limit", "price", -2, 2), "left": Rows(50), "right": Rows(50), "sequence": "seq"}


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    """Address of a daemon that asks for the token "secret"."""
    token = tmp_path_factory.mktemp("flight") / "token"
    token.touch(0o600)
    token.write_text("secret\n")
    token.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with start_private("numpy", listen=f"127.0.0.1:{port}", token_file=token):
        yield f"grpc://127.0.0.1:{port}"


@pytest.mark.main
def test_streams(runner, flight, seed):
    bids, asks = bids_and_asks(seed, batches=3)
    joined = window_join(
        runner.stream("bids", bids), runner.stream("asks", asks), **OPTIONS, daemon=flight, token="secret", state=None
    )
    runner.run(joined)
    loop = NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq")
    assert pairs(runner) == expected(loop, bids, asks)


@pytest.mark.parametrize("token", [None, "wrong"])
def test_token_is_checked_at_the_call(runner, flight, seed, token):
    bids, asks = bids_and_asks(seed, batches=1)
    with pytest.raises(errors.AuthError):
        window_join(
            runner.stream("bids", bids), runner.stream("asks", asks), **OPTIONS, daemon=flight, token=token, state=None
        )
