"""Puts into Verilog what an FPGA may do where a design must not care.

A block RAM gives anything where a read meets a write. A register that Amaranth makes has an initial value, which the
bitstream sets; a reset must not rely on it, as it comes again and again, whatever the registers hold by then.
"""

from __future__ import annotations

import random
import re

_MEMORY = re.compile(r"^  reg (?:\[\d+:\d+\] )?(\S+) \[\d+:\d+\];$", re.M)
_PROCESS = re.compile(
    r"^  always @\(posedge (?P<clock>[^)]*)\)(?: begin)?\n"
    r"(?:    if \((?P<enable>.*)\)(?: begin)?\n)?"
    r" +(?P<to>\S.*) <= (?P<what>.*);\n"
    r"(?:    end\n)?(?:  end\n)?",
    re.M,
)
_PLACE = re.compile(r"(\S+?) ?\[(.*)\]")
_REGISTER = re.compile(r"^(  reg (?:signed )?(?:\[(\d+):0\] )?(?:\\\S+ |\w+)) = [^;]+;$", re.M)


def colliding_reads(text: str) -> str:
    """Lets a memory that is read by clock give the opposite of what is in a place that is written in that very cycle.

    Block RAM may give anything then, and the design's netlists are made for that (`hw/boards/ecp5_board.py`). Simulated
    like this, a block that depends on what it reads there does not pass its tests.

    Parameters
    ----------
    text : str
        As `amaranth.back.verilog` writes it; each memory has one port that is written.

    Returns
    -------
    str
        The same with such reads.

    Raises
    ------
    ValueError
        If a memory is read by clock and its write clock is not known; it names the memory.
    """
    return "".join(_module(part) for part in re.split(r"(?<=^endmodule\n)", text, flags=re.M))


def _module(text: str) -> str:
    memories = set(_MEMORY.findall(text))
    writes: dict[str, list[tuple[str, str, str]]] = {}
    for found in _PROCESS.finditer(text):
        to = _PLACE.fullmatch(found["to"])
        if to and to[1] in memories:
            writes.setdefault(to[1], []).append((found["clock"], found["enable"] or "1'b1", to[2]))

    def read(found: re.Match[str]) -> str:
        place = _PLACE.fullmatch(found["what"])
        if not place or place[1] not in memories:
            return found[0]
        name = place[1]
        if not re.search(rf"^ +{re.escape(name)} ?\[.* <= ", text, re.M):
            return found[0]  # it is never written
        if len(writes.get(name, [])) != 1:
            raise ValueError(f"memory {name} is written at {len(writes.get(name, []))} places, not at one")
        clock, enable, address = writes[name][0]
        if clock != found["clock"]:
            return found[0]  # of two clocks, nothing is known
        what = found["what"]
        wrong = f"(({enable}) && ({address}) == ({place[2]})) ? ~{what} : {what}"
        return found[0].replace(f"<= {what};", f"<= {wrong};")

    return _PROCESS.sub(read, text)


def without_initial_values(text: str) -> str:
    """Leave out what registers begin with.

    Parameters
    ----------
    text : str
        Verilog as Amaranth writes it.

    Returns
    -------
    str
        The same, with ``reg [3:0] a;`` for ``reg [3:0] a = 4'h0;``. What memories hold first stays: a read-only one has
        nothing else.
    """
    return _REGISTER.sub(r"\1;", text)


def with_drawn_values(text: str) -> str:
    """Let registers begin with drawn values, always the same.

    Parameters
    ----------
    text : str
        As of `without_initial_values`.

    Returns
    -------
    str
        The same, with ``reg [3:0] a = 4'h9;`` for ``reg [3:0] a = 4'h0;``.
    """
    drawn = random.Random(1)

    def begin(register: re.Match[str]) -> str:
        bits = int(register[2] or 0) + 1
        return f"{register[1]} = {bits}'h{drawn.getrandbits(bits):x};"

    return _REGISTER.sub(begin, text)
