"""A DRAM controller in Verilog, with what must be known of it."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class DramCore:
    """A DRAM controller in Verilog, with what must be known of it.

    Attributes
    ----------
    verilog : str
        One module with ports ``axi0_awvalid`` and so on for each AXI4 port, ``csr_adr``, ``csr_we``, ``csr_re``,
        ``csr_dat_w`` and ``csr_dat_r``, and those of its clocks and pads.
    row_bytes : int
        Bytes after which the next bank follows.
    memory_bytes : int
    start : dict
        How it is started, for JSON; see `muntin.hw.dram.start_description`.
    """

    verilog: str
    row_bytes: int
    memory_bytes: int
    start: dict[str, Any]
