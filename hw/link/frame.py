"""Frames, as the host makes and reads them. Standard library only."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Sequence

from muntin.hw.link.protocol import ESCAPE, ESCAPED, FLAG


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
