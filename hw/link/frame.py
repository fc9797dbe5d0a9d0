"""Frames, as the host makes and reads them. Standard library only."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from hw.link.protocol import ESCAPE, ESCAPED, FLAG


def to_frame(words: Sequence[int]) -> bytes:
    """The bytes of a frame with these 32-bit words."""
    content = struct.pack(f"<{len(words)}I", *words)
    content += struct.pack("<I", zlib.crc32(content))
    stuffed = bytearray([FLAG])
    for byte in content:
        if byte in (FLAG, ESCAPE):
            stuffed += bytes([ESCAPE, byte ^ ESCAPED])
        else:
            stuffed.append(byte)
    stuffed.append(FLAG)
    return bytes(stuffed)


class FrameReader:
    """Finds frames in bytes as they come.

    Attributes
    ----------
    damaged : int
        Frames so far that were not whole: of no whole number of words, or with a wrong CRC.
    """

    def __init__(self) -> None:
        self.damaged = 0
        self._content = bytearray()
        self._open = False
        self._escaped = False

    def feed(self, received: bytes) -> Iterator[list[int]]:
        """The words of each frame that ends in these bytes. What precedes the first flag belongs to no frame."""
        for byte in received:
            if byte == FLAG:
                content, self._content = bytes(self._content), bytearray()
                whole = not self._escaped
                was_open, self._open, self._escaped = self._open, True, False
                if not content or not was_open:
                    continue
                if whole and len(content) >= 8 and len(content) % 4 == 0 and zlib.crc32(content) == _RESIDUE:
                    yield list(struct.unpack(f"<{len(content) // 4 - 1}I", content[:-4]))
                else:
                    self.damaged += 1
            elif byte == ESCAPE:
                self._escaped = True
            else:
                self._content.append(byte ^ ESCAPED if self._escaped else byte)
                self._escaped = False


_RESIDUE = zlib.crc32(struct.pack("<I", zlib.crc32(b"")))
"""The CRC of anything followed by its CRC."""
