"""The memory port of a kernel, as parameters that every design has."""

from __future__ import annotations

import dataclasses
import functools

from muntin.contract import ParameterError

_MAX_BURST_BYTES = 4096  # an AXI4 burst must not cross a 4 KiB boundary
_MAX_BURST_BEATS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemoryPort:
    """How wide a kernel's memory is, and how it is asked.

    Attributes
    ----------
    data_bits : int
        Width of a memory port, a power of two of at most 1024.
    address_bits : int
        Width of a byte address.
    burst_bytes : int
        Longest burst: at most 4 KiB, and at most 256 beats.
    outstanding : int
        Bursts that may be under way at once, of all readers of a channel together, and of all writers.
    turn_bytes : int
        Bytes moved in one direction before a shared channel turns to the other.
    alternate_bytes : int
        Bytes after which the memory goes on in a row of its own, a power of two: bursts that follow each other go to
        rows of different parity where there is a choice. 0: it does not matter.
    clock_hz : int
        The clock the preset is meant for; figures in time are made with it, nothing is built from it.

    Raises
    ------
    ParameterError
        Naming the parameter, its value and what it may be.
    """

    data_bits: int
    address_bits: int
    burst_bytes: int
    outstanding: int
    turn_bytes: int
    alternate_bytes: int
    clock_hz: int

    def __post_init__(self) -> None:
        self._at_least(1, "data_bits", "burst_bytes", "outstanding", "turn_bytes", "clock_hz")
        self._at_least(0, "alternate_bytes")
        self._one_of("data_bits", self._data_bits())
        self._powers_of_two("burst_bytes", "turn_bytes", "alternate_bytes")
        if type(self.address_bits) is not int or not 12 <= self.address_bits <= 64:
            raise ParameterError(f"address_bits must lie in 12..64, not {self.address_bits!r}")
        longest = min(_MAX_BURST_BYTES, _MAX_BURST_BEATS * self.beat_bytes)
        if not self.beat_bytes <= self.burst_bytes <= longest:
            raise ParameterError(
                f"burst_bytes must lie in {self.beat_bytes}..{longest}, at most {_MAX_BURST_BEATS} beats of "
                f"{self.beat_bytes} bytes, not {self.burst_bytes}"
            )
        if self.turn_bytes < self.burst_bytes:
            raise ParameterError(f"turn_bytes must be at least burst_bytes, {self.burst_bytes}, not {self.turn_bytes}")

    @classmethod
    def _data_bits(cls) -> tuple[int, ...]:
        """What `data_bits` may be."""
        return 32, 64, 128, 256, 512, 1024

    def _at_least(self, least: int, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ParameterError(f"{name} must be an integer of at least {least}, not {value!r}")

    def _one_of(self, name: str, allowed: tuple[int, ...]) -> None:
        if getattr(self, name) not in allowed:
            raise ParameterError(f"{name} must be one of {', '.join(map(str, allowed))}, not {getattr(self, name)!r}")

    def _powers_of_two(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value & (value - 1):
                raise ParameterError(f"{name} must be a power of two, not {value}")

    @functools.cached_property
    def beat_bytes(self) -> int:
        """Bytes of a memory beat."""
        return self.data_bits // 8

    @functools.cached_property
    def burst_beats(self) -> int:
        """Beats of the longest burst."""
        return self.burst_bytes // self.beat_bytes
