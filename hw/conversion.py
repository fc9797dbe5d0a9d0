"""Components as RTLIL and as Verilog, as Amaranth writes them."""

import re
from typing import Any

from amaranth.back import rtlil, verilog
from amaranth.hdl import _nir


def to_rtlil(component: Any, name: str, **options: Any) -> str:
    """Convert a component as `amaranth.back.rtlil.convert` does, without places in Python.

    Examples
    --------
    >>> from amaranth.hdl import Module
    >>> "module \\\\top" in to_rtlil(Module(), "top", ports=[])
    True
    """
    return rtlil.convert(component, name=name, emit_src=False, **options)


def to_verilog(component: Any, name: str, **options: Any) -> str:
    """Convert a component as `amaranth.back.verilog.convert` does, without places in Python and Yosys' attributes."""
    return verilog.convert(component, name=name, emit_src=False, strip_internal_attrs=True, **options)


def rtlil_to_verilog(text: str) -> str:
    """The Verilog that `to_verilog` makes of the component with this RTLIL."""
    return verilog._convert_rtlil_text(text, strip_internal_attrs=True)


def _emit_memory(emitter: Any, index: int, cell: Any) -> None:
    """Writes what a memory holds at power-up by rows.

    Amaranth 0.5 makes objects for each bit of it, two thirds of the time of a kernel's conversion.
    """
    data = "".join(f"{row & (1 << cell.width) - 1:0{cell.width}b}" for row in reversed(cell.init)) if cell.width else ""
    emitter.builder.cell(
        "$meminit_v2",
        ports={
            "ADDR": emitter.sigspec(),
            "DATA": f"{len(data)}'{data}" if data else emitter.sigspec(),
            "EN": emitter.sigspec(_nir.Value.ones(cell.width)),
        },
        parameters={
            "MEMID": emitter.memories[index].memid,
            "ABITS": 0,
            "WIDTH": cell.width,
            "WORDS": cell.depth,
            "PRIORITY": 0,
        },
        src_loc=cell.src_loc,
    )


emit_memory_by_bits = rtlil.ModuleEmitter.emit_memory  #: Amaranth's own.
rtlil.ModuleEmitter.emit_memory = _emit_memory


_ZEROS = re.compile(r"^  initial begin\n(?:    .+\[\d+\] = \d+'[bdho]0+;\n)+  end\n", re.M)


def without_zeros(text: str) -> str:
    """Verilog as Amaranth writes it, without the `initial` blocks that set a memory to zeros word by word.

    An index of 65,536 entries has as many lines of them. The memories of an Arria 10 and of an UltraScale+ are zero
    after configuration whatever the Verilog says; one that begins with anything else keeps its block.

    Source
    ------
    Intel Cyclone 10 GX Core Fabric and General Purpose I/Os Handbook (683775), section 2.2.4, table 4, for M20K and
    MLAB; the Arria 10's handbook (683461), table 5, lists the same blocks. AMD, UltraScale Architecture Memory
    Resources (UG573), initialization of block RAM and UltraRAM.
    """
    return _ZEROS.sub("", text)
