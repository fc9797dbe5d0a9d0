"""Claims: one daemon has a window, and another takes it over when that is gone."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier

import pytest

from muntin.host.daemon.claims import claim_window, newest_claim
from muntin.host.errors import StateError
from muntin.host.state import open_store


def test_the_first_has_it_until_it_is_gone(tmp_path: Path) -> None:
    store, started, alive = open_store(tmp_path), count(), set()

    def start() -> str:
        address = f"unix:/daemon-{next(started)}"
        alive.add(address)
        return address

    assert newest_claim(store) is None
    assert [claim_window(store, alive.__contains__, start) for _ in range(3)] == ["unix:/daemon-0"] * 3
    alive.clear()
    assert claim_window(open_store(tmp_path), alive.__contains__, start) == "unix:/daemon-1"
    assert store.names() == ["000000000001.claim"]


def test_many_at_once_agree(tmp_path: Path) -> None:
    clients = 8
    alive, together = set(), Barrier(clients)

    def claim(number: int) -> str:
        def start() -> str:
            alive.add(f"unix:/daemon-{number}")
            together.wait(10)  # all have seen that there is no claim
            return f"unix:/daemon-{number}"

        return claim_window(open_store(tmp_path), alive.__contains__, start)

    with ThreadPoolExecutor(clients) as threads:
        assert len(set(threads.map(claim, range(clients)))) == 1


@pytest.mark.parametrize("text", ["{", '{"address": "tnix:/daemon-0"}', '{"address": null}'])
def test_damaged_claim(tmp_path: Path, text: str) -> None:
    (tmp_path / "000000000003.claim").write_text(text)
    with pytest.raises(StateError, match=r"000000000003\.claim is damaged"):
        claim_window(open_store(tmp_path), lambda address: True, lambda: "another")
