"""Widths and limits of a memory port and of the readers and writers on it."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.contract import ParameterError
from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters


@dataclass(frozen=True, kw_only=True)
class PortShape:
    """Widths and limits of a memory port and of the readers and writers on it.

    Parameters
    ----------
    address_width : int
        Bits of a byte address.
    data_width : int
        Bits of a beat: a power of two, from 16 to 1024.
    length_width : int
        Bits of a transfer's length in bytes.
    id_width : int
        Bits of the AXI identifiers; all bursts carry identifier 0, so that they come back in order.
    burst_bytes : int
        Longest burst: a power of two, at least one beat, at most 256 beats and at most 4 KiB. Bursts end at
        multiples of it, so none crosses a 4 KiB boundary, nor a row of a DRAM bank that is as long.
    outstanding : int
        Bursts that one reader or writer may have under way.
    buffer_bytes : int
        Data that one reader or writer holds; at least one burst.
    max_transfer_bytes : int or None
        Longest transfer; by default the longest that `length_width` can say.
    memory_bytes : int or None
        Size of the memory; by default all that `address_width` can address.

    Attributes
    ----------
    beat_bytes, burst_beats, buffer_beats : int
        Bytes of a beat, beats of the longest burst, beats of the buffer.

    Raises
    ------
    ParameterError
        If a value is outside what is said above.
    """

    address_width: int = 32
    data_width: int = 128
    length_width: int = 32
    id_width: int = 1
    burst_bytes: int = 1024
    outstanding: int = 16
    buffer_bytes: int = 8192
    max_transfer_bytes: int | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.address_width <= 64:
            raise ParameterError(f"address_width must be from 1 to 64, not {self.address_width!r}")
        if self.data_width not in (16, 32, 64, 128, 256, 512, 1024):
            raise ParameterError(f"data_width must be a power of two from 16 to 1024, not {self.data_width!r}")
        if not 1 <= self.length_width <= 64:
            raise ParameterError(f"length_width must be from 1 to 64, not {self.length_width!r}")
        if self.id_width < 1:
            raise ParameterError(f"id_width must be at least 1, not {self.id_width!r}")
        longest = min(4096, 256 * self.beat_bytes)
        if self.burst_bytes & (self.burst_bytes - 1) or not self.beat_bytes <= self.burst_bytes <= longest:
            raise ParameterError(
                f"burst_bytes must be a power of two from {self.beat_bytes} to {longest}, not {self.burst_bytes!r}"
            )
        if self.outstanding < 1:
            raise ParameterError(f"outstanding must be at least 1, not {self.outstanding!r}")
        if self.buffer_bytes < self.burst_bytes or self.buffer_bytes % self.beat_bytes:
            raise ParameterError(
                f"buffer_bytes must be a multiple of {self.beat_bytes} and at least burst_bytes "
                f"({self.burst_bytes}), not {self.buffer_bytes!r}"
            )
        if self.max_transfer_bytes is not None and not 1 <= self.max_transfer_bytes < 1 << self.length_width:
            raise ParameterError(
                f"max_transfer_bytes must fit length_width ({self.length_width}), not {self.max_transfer_bytes!r}"
            )
        if self.memory_bytes is not None and not self.beat_bytes <= self.memory_bytes <= 1 << self.address_width:
            raise ParameterError(
                f"memory_bytes must fit address_width ({self.address_width}), not {self.memory_bytes!r}"
            )

    @classmethod
    def of_kernel(cls, parameters: Parameters | SplitJoinParameters) -> PortShape:
        """That of the memory ports of a kernel that is built so."""
        channel_bits = parameters.address_bits - (parameters.channels.bit_length() - 1)
        return cls(
            address_width=channel_bits,
            data_width=parameters.data_bits,
            length_width=channel_bits + 1,
            burst_bytes=parameters.burst_bytes,
            outstanding=parameters.outstanding,
            buffer_bytes=parameters.turn_bytes,
        )

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def burst_beats(self) -> int:
        return self.burst_bytes // self.beat_bytes

    @property
    def buffer_beats(self) -> int:
        return self.buffer_bytes // self.beat_bytes
