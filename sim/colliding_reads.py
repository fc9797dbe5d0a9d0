"""Verilog in which a read that meets a write gives something wrong."""

from __future__ import annotations

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
