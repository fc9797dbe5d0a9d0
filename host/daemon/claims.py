"""Which daemon has the window of a partition, where the query names none: a claim that lies beside its state.

A claim is a file that can be created once, ``N.claim``; the newest holds. Who finds that the daemon in it is gone
starts another and claims the window for it. Two daemons that both believe they have a window cannot harm it: of a batch
only one can be committed.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable

from muntin.host.daemon.address import Address
from muntin.host.errors import DaemonError, StateError, StateTakenError
from muntin.host.state import Store

_NAME = re.compile(r"(\d{12})\.claim")


@dataclasses.dataclass(frozen=True)
class Claim:
    """The claim of a daemon, by its address; `number` counts the claims of one window."""

    number: int
    address: str


def newest_claim(store: Store) -> Claim | None:
    """The claim that holds; None where there is none.

    Raises
    ------
    StateError
        The place cannot be reached, or a claim cannot be read.
    """
    numbers = [int(match[1]) for name in store.names() if (match := _NAME.fullmatch(name))]
    if not numbers:
        return None
    name = _name(max(numbers))
    try:
        address = str(json.loads(store.read(name))["address"])
        Address.parse(address)
    except (ValueError, KeyError, TypeError, DaemonError) as error:
        raise StateError(f"the state's file {store.path(name)} is damaged: delete it") from error
    return Claim(max(numbers), address)


def claim_window(store: Store, reachable: Callable[[str], bool], start: Callable[[], str]) -> str:
    """The address of the daemon that has a window; one is started where there is none that can be reached.

    Parameters
    ----------
    store : Store
        Of the window's state.
    reachable : callable
        Whether a daemon answers at an address.
    start : callable
        Starts a daemon, or finds the one of this process that was started before; its address.

    Raises
    ------
    StateError
        The place cannot be reached.
    """
    newest = newest_claim(store)
    while newest is None or not reachable(newest.address):
        claim = Claim(0 if newest is None else newest.number + 1, start())
        try:
            store.create(_name(claim.number), [json.dumps({"address": claim.address}).encode()])
        except StateTakenError:  # another was first, or an object store's client has repeated a request of ours
            newest = newest_claim(store)
            continue
        if newest is not None:
            store.delete(_name(newest.number))
        return claim.address
    return newest.address


def _name(number: int) -> str:
    return f"{number:012d}.claim"
