"""What passes between a host and a board, as data. Standard library only.

The host asks, the board answers, one request at a time. Both travel in frames: a flag, the content with flags and
escapes in it escaped as in HDLC, its CRC-32, a flag. A frame that is damaged is dropped and not answered, so that the
host asks again under the same sequence number; a request that the board has carried out already is not carried out
again, but answered as before. A request is looked at only once all of it is there and its CRC is right.

The content is 32-bit words, low byte first: `REQUEST_HEADER` and data words, or one word of `RESPONSE_FIELDS` and data
words.
"""

from __future__ import annotations

import enum
import re
import struct
import zlib
from collections.abc import Iterator, Sequence

FLAG = 0x7E
ESCAPE = 0x7D
ESCAPED = 0x20
"""A byte that is a flag or an escape is sent as an escape and then itself with this bit inverted."""

MAGIC = 0x4D4C4B31
"""The letters MLK1: version 1 of all this."""

DATA_WORDS = 504
"""The most data words in a frame."""

HEADER_WORDS = 3

DATAGRAM_BYTES = 1472
"""The most bytes of a frame in a UDP datagram: what an Ethernet packet has room for. A frame begins a datagram, and
goes on in others where it is longer; on a serial line its bytes just follow each other."""


class Request(enum.IntEnum):
    """What the host may ask for: bits 7:0 of a request."""

    OPEN = 1
    """Begin a session of that number, whatever was before. Answer: `MAGIC`. This alone may be carried out twice."""
    READ = 2
    """Data: addresses of registers. Answer: their values, read in this order."""
    WRITE = 3
    """Data: pairs of an address and a value, written in this order."""
    PUSH = 4
    """Data: values, written one after the other to the register at `address`."""
    READ_MEMORY = 5
    """Answer: `count` words of memory, from `address` on."""
    WRITE_MEMORY = 6
    """Data: words of memory, from `address` on."""
    WAIT = 7
    """Wait until the kernel interrupts, `count` cycles at most. Answer: 1 if it does, else 0."""
    RESET = 8
    """Let the kernel's memory accesses end, then reset it. The memory, and how it was started, stay."""


class Status(enum.IntEnum):
    """How it went: bits 7:0 of an answer. Other than after OK, the data are one word: the data words done before."""

    OK = 0
    SESSION = 1
    """This is not the session that was opened last; nothing was done."""
    UNKNOWN = 2
    """There is no such request, or not with as much data; nothing was done."""
    BUS = 3
    """What is at that address answered with an error."""
    SILENT = 4
    """What is at that address did not answer within `PATIENCE` cycles; until the board is reset, no other will be asked
    for."""


STATUS_TEXT: dict[Status, str] = {
    Status.SESSION: "the board knows of no such session: it was reset or loaded, or another program has opened it",
    Status.UNKNOWN: "the board does not know that request",
    Status.BUS: "the bus answered with an error",
    Status.SILENT: "the bus did not answer",
}

PATIENCE = 1 << 20
"""Cycles within which a bus must answer."""

# Words of a request before its data:
#   0   bits 7:0 a Request, bits 15:8 the sequence number, bits 31:16 the session
#   1   address: of a register in bytes, of memory in words
#   2   count
# and the one word of an answer before its data: a Status in bits 7:0, sequence number and session as in the request.

KERNEL_BASE = 0x0000_0000
"""Registers of the kernel, as in `muntin.contract.registers`."""

DRAM_BASE = 0x1000_0000
"""Registers of the memory controller. Which there are is said in the description."""

DESCRIPTION_BASE = 0x2000_0000
"""What was built, and how its memory is started. The first word is the length in bytes of what follows: JSON,
compressed with zlib. Reads only."""

REGION_BITS = 4
"""The region is the top bits of an address."""


def to_frame(words: Sequence[int]) -> bytes:
    """The bytes of a frame with these 32-bit words."""
    content = struct.pack(f"<{len(words)}I", *words)
    content += struct.pack("<I", zlib.crc32(content))
    for byte in (ESCAPE, FLAG):  # in this order: the second brings escapes
        content = content.replace(bytes([byte]), bytes([ESCAPE, byte ^ ESCAPED]))
    return bytes([FLAG]) + content + bytes([FLAG])


class FrameReader:
    """Finds frames in bytes as they come.

    Attributes
    ----------
    damaged : int
        Frames so far that were not whole: of no whole number of words, or with a wrong CRC.
    """

    def __init__(self) -> None:
        self.damaged = 0
        self._stuffed = b""
        self._open = False

    def feed(self, received: bytes) -> Iterator[list[int]]:
        """The words of each frame that ends in these bytes. What precedes the first flag belongs to no frame."""
        *ended, rest = received.split(bytes([FLAG]))
        for part in ended:
            stuffed, self._stuffed = self._stuffed + part, b""
            was_open, self._open = self._open, True
            if not stuffed or not was_open:
                continue
            content = _PAIR.sub(lambda pair: bytes([pair[1][0] ^ ESCAPED]), stuffed)
            whole = stuffed[-1] != ESCAPE and len(content) >= 8 and len(content) % 4 == 0
            if whole and zlib.crc32(content) == _RESIDUE:
                yield list(struct.unpack(f"<{len(content) // 4 - 1}I", content[:-4]))
            else:
                self.damaged += 1
        self._stuffed += rest


_PAIR = re.compile(rb"%c+([^%c])" % (ESCAPE, ESCAPE), re.DOTALL)
"""An escape, and what it escapes."""

_RESIDUE = zlib.crc32(struct.pack("<I", zlib.crc32(b"")))
"""The CRC of anything followed by its CRC."""
