"""Model of the board's end of the link: what `muntin.hw.link.link` answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from muntin.contract.link import DATA_WORDS, HEADER_WORDS, MAGIC, FrameReader, Request, Status, to_frame


class Behind(Protocol):
    """What is behind the link. An access to what is not there gives None, or False."""

    def read(self, address: int) -> int | None: ...

    def write(self, address: int, value: int) -> bool: ...

    def read_memory(self, word: int) -> int | None: ...

    def write_memory(self, word: int, value: int) -> bool: ...

    def wait(self, cycles: int) -> bool: ...

    def reset(self) -> None: ...


class LinkModel:
    """Answers requests, each once, over what is behind it.

    Parameters
    ----------
    behind : Behind
    """

    def __init__(self, behind: Behind):
        self._behind = behind
        self._reader = FrameReader()
        self._opened = 0
        self._last: tuple[int, list[int]] | None = None

    def feed(self, received: bytes) -> bytes:
        """The bytes that go back for those that came."""
        return b"".join(to_frame(self._answer(words)) for words in self._reader.feed(received) if self._fits(words))

    @staticmethod
    def _fits(words: Sequence[int]) -> bool:
        return HEADER_WORDS <= len(words) <= HEADER_WORDS + DATA_WORDS

    def _answer(self, words: list[int]) -> list[int]:
        head, address, count, *data = words
        request, sequence, session = head & 0xFF, head >> 8 & 0xFF, head >> 16
        if request == Request.OPEN:
            self._opened = session
            status, given = Status.OK, [MAGIC]
        elif session != self._opened:
            status, given = Status.SESSION, [0]
        elif self._last is not None and self._last[0] == sequence:
            return self._last[1]
        else:
            status, given = self._carry_out(request, address, count, data)
        answer = [int(status) | head & 0xFFFFFF00, *given]
        self._last = None if status is Status.SESSION else (sequence, answer)
        return answer

    def _carry_out(self, request: int, address: int, count: int, data: list[int]) -> tuple[Status, list[int]]:
        behind = self._behind
        if request == Request.READ:
            return self._read(behind.read, data)
        if request == Request.READ_MEMORY and count <= DATA_WORDS and not data:
            return self._read(behind.read_memory, range(address, address + count))
        if request == Request.WRITE and len(data) % 2 == 0:
            for place in range(0, len(data), 2):
                if not behind.write(data[place], data[place + 1]):
                    return Status.BUS, [place + 1]
            return Status.OK, []
        if request in (Request.PUSH, Request.WRITE_MEMORY):
            for place, value in enumerate(data):
                pushed = request == Request.PUSH
                if not (behind.write(address, value) if pushed else behind.write_memory(address + place, value)):
                    return Status.BUS, [place]
            return Status.OK, []
        if request == Request.WAIT:
            return Status.OK, [int(behind.wait(count))]
        if request == Request.RESET:
            behind.reset()
            return Status.OK, []
        return Status.UNKNOWN, [0]

    @staticmethod
    def _read(read: Callable[[int], int | None], addresses: Sequence[int]) -> tuple[Status, list[int]]:
        given: list[int] = []
        for address in addresses:
            value = read(address)
            if value is None:
                return Status.BUS, [len(given)]
            given.append(value)
        return Status.OK, given
