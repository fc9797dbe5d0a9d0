"""A board behind a serial line, or Ethernet."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from muntin.contract.boards import from_description
from muntin.contract.designs.bisort import BISORT
from muntin.contract.link import DESCRIPTION_BASE, KERNEL_BASE
from muntin.host.errors import LinkIdentityError
from muntin.host.link.dram_start import DramStart, LaneTiming
from muntin.host.link.link_client import LinkClient

_OFFSETS = {register.name: register.offset for register in BISORT.registers()}
_WAIT_CYCLES = 1 << 17  # for each question whether it is done
_TIMEOUT_CYCLES = 1 << 20  # in which a memory may owe an answer
_WORD = 4


class SerialBoard:
    """A board behind a serial line, or Ethernet; a `BoardLink`.

    Its description is read and compared with what is expected, and its memory is started. What it held is lost.

    Parameters
    ----------
    client : LinkClient
    board : str
        The board expected.
    parameters : mapping of str to Parameters or SplitJoinParameters
        For each design that it may have, what that is built with.
    too_long : float
        Seconds after which a batch of commands is given up.
    behind : object
        What is closed with it: a simulated board.

    Attributes
    ----------
    description : dict
        What the board says of itself, as given to `muntin.contract.boards.to_description`.
    lanes : list of LaneTiming
        How its memory was set.

    Raises
    ------
    LinkIdentityError
        If the board is another one, has an unknown design, or one with other parameters.
    MemoryStartError
        If its memory does not start.
    LinkError
        As `LinkClient`.
    """

    def __init__(
        self,
        client: LinkClient,
        board: str,
        parameters: Mapping[str, Any],
        *,
        too_long: float = 600.0,
        behind: Any = None,
    ):
        self._client = client
        self.behind = behind
        self._too_long = too_long
        client.open()
        self.description = self._described()
        self._parameters = self._expected(board, parameters)
        self._clock_hz: int = self.description["clock_hz"]
        self.reset()
        self.lanes: list[LaneTiming] = DramStart(client, self.description["start"], self._clock_hz).run()

    @property
    def parameters(self) -> Any:
        """See `BoardLink`."""
        return self._parameters

    @property
    def memory_bytes(self) -> int:
        """See `BoardLink`."""
        return self.description["memory_bytes"]

    @property
    def banks(self) -> tuple[int, int]:
        """The memory's banks, and the bytes after which the next one follows."""
        banks, row_bytes = self.description["start"]["banks"]
        return banks, row_bytes

    @property
    def repeated(self) -> int:
        """As of `LinkClient`."""
        return self._client.repeated

    def _described(self) -> dict[str, Any]:
        (length,) = self._client.read([DESCRIPTION_BASE])
        if not 0 < length < 1 << 16:
            raise LinkIdentityError(f"the board's description cannot have {length} bytes: load a bitstream of Muntin's")
        words = self._client.read([DESCRIPTION_BASE + _WORD * (1 + word) for word in range(-(-length // _WORD))])
        raw = np.array(words, np.uint32).tobytes()[:length]
        try:
            return from_description(raw)
        except ValueError as error:
            raise LinkIdentityError(f"{error}: load a bitstream of this version") from error

    def _expected(self, board: str, parameters: Mapping[str, Any]) -> Any:
        found = self.description
        if found["board"] != board:
            raise LinkIdentityError(f"this is a board {found['board']!r}, not {board!r}")
        if found["design"] not in parameters:
            raise LinkIdentityError(
                f"the board has the design {found['design']!r}, not {' or '.join(map(repr, parameters))}: load one of "
                f"these onto it, or open what it has as board:{board}:design={found['design']}"
            )
        expected = dataclasses.asdict(parameters[found["design"]])
        differing = [
            f"{name} is {found['parameters'].get(name)}, not {expected.get(name)}"
            for name in sorted({*expected, *found["parameters"]})
            if found["parameters"].get(name) != expected.get(name)
        ]
        if differing:
            raise LinkIdentityError(
                "the design on the board was built with other parameters than this version's "
                f"({'; '.join(differing)}): load a bitstream of this version"
            )
        return parameters[found["design"]]

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """See `BoardLink`."""
        return self._client.read([KERNEL_BASE + offset for offset in offsets])

    def write_register(self, offset: int, value: int) -> None:
        """See `BoardLink`."""
        self._client.write([(KERNEL_BASE + offset, value)])

    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """See `BoardLink`."""
        self._client.push(KERNEL_BASE + offset, words)

    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        """See `BoardLink`."""
        raw = content if isinstance(content, bytes) else np.ascontiguousarray(content).tobytes()
        if not raw:
            return
        # Words at the ends that are written in part are read first.
        before, behind = address % _WORD, -(address + len(raw)) % _WORD
        if before:
            raw = self.read_memory(address - before, before).tobytes() + raw
        if behind:
            raw += self.read_memory(address - before + len(raw), behind).tobytes()
        self._client.write_memory((address - before) // _WORD, np.frombuffer(raw, np.uint32).tolist())

    def read_memory(self, address: int, length: int) -> np.ndarray:
        """See `BoardLink`."""
        before = address % _WORD
        words = self._client.read_memory((address - before) // _WORD, -(-(before + length) // _WORD))
        return np.array(words, np.uint32).view(np.uint8)[before : before + length].copy()

    def wait(self) -> None:
        """See `BoardLink`."""
        until = time.monotonic() + self._too_long
        while not self._client.wait(_WAIT_CYCLES, _WAIT_CYCLES / self._clock_hz):
            if time.monotonic() > until:
                raise TimeoutError(f"the kernel was not done after {self._too_long:.0f} s")
        self.write_register(_OFFSETS["INTERRUPT_STATUS"], 1)
        self.read_registers([_OFFSETS["CONTROL"]])  # which clears done

    def reset(self) -> None:
        """See `BoardLink`."""
        self._client.reset()
        settings = {"GLOBAL_INTERRUPT_ENABLE": 1, "INTERRUPT_ENABLE": 1, "TIMEOUT_CYCLES": _TIMEOUT_CYCLES}
        self._client.write([(KERNEL_BASE + _OFFSETS[name], value) for name, value in settings.items()])

    def close(self) -> None:
        """See `BoardLink`."""
        self._client.close()
        if self.behind is not None:
            self.behind.close()
