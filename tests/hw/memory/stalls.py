"""Random stalls for cocotb, and the law every stream keeps."""

import random
from collections.abc import Iterator

from cocotb.handle import SimHandleBase
from cocotb.triggers import RisingEdge


def stalls(seed: int, share: float) -> Iterator[bool]:
    """Whether to pause, cycle by cycle: pauses come in runs, about `share` of all cycles."""
    source = random.Random(seed)
    while True:
        paused = source.random() < share
        for _ in range(source.randint(1, 8)):
            yield paused


async def watch(
    clock: SimHandleBase,
    reset: SimHandleBase,
    valid: SimHandleBase,
    ready: SimHandleBase,
    *payload: SimHandleBase,
) -> None:
    """Fail if `valid` falls, or a payload moves, before it was taken or the component is reset."""
    waiting: list[int] | None = None
    while True:
        await RisingEdge(clock)
        if reset.value == 1:
            waiting = None
        elif valid.value == 1:
            values = [int(signal.value) for signal in payload]
            if waiting is not None:
                assert values == waiting, f"{valid._name}: the payload moved before it was taken"
            waiting = None if ready.value == 1 else values
        else:
            assert waiting is None, f"{valid._name} fell before it was taken"
