"""An estimate of what a design takes of an Arria 10, with tools out of this Python's own packages."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

from amaranth.lib import wiring

from bench.area.ecp5 import ports, run_yosys
from muntin.hw.conversion import to_verilog, without_zeros

FAMILY = "cyclonev"
"""What `synth_intel_alm` is asked for: the only family it has. Its ALM is that of an Arria 10: one function of six
inputs, or two that share eight, two adders and four registers."""

_MLAB_WORDS = 32  # a memory of at most so many words goes into MLABs: 32 words of 20 bits in 10 ALMs
_MLAB_BITS, _MLAB_ALMS = 20, 10
_M20K = ((512, 40), (1024, 20), (2048, 10), (4096, 5), (8192, 2), (16384, 1))  # words and bits, one port each way


@dataclass(frozen=True)
class Estimate:
    """What a design takes of an Arria 10, as Yosys and a few rules have it; no vendor's tool was asked.

    Attributes
    ----------
    alms : int
        At most: functions of five and six inputs take one each, of smaller ones and of adders two share one, and
        nothing else is packed together; memories of at most 32 words, as MLABs, are added.
    aluts, flip_flops, m20k, dsp : int
        Functions and adders; registers; block memories by width and depth alone; multipliers.
    cells_ns : float
        The longest path between registers or memories: the delays of its cells alone, as Yosys has them for a
        Cyclone V. Routing comes on top, and an Arria 10 is a newer process; so it is a clock rate that a Cyclone V does
        not reach, and what the Arria 10 must be faster by.
    """

    alms: int
    aluts: int
    flip_flops: int
    m20k: int
    dsp: int
    cells_ns: float = 0.0


def estimate(component: wiring.Component, folder: Path, name: str) -> Estimate:
    """Estimate what a component takes of an Arria 10.

    Parameters
    ----------
    component : Component
    folder : Path
        Where Verilog and logs go.
    name : str
        Of the top module and the files.

    Raises
    ------
    BuildError
        If Yosys fails.
    """
    text = to_verilog(component, name, ports=ports(component))
    (folder / f"{name}.v").write_text(without_zeros(text))  # which take Yosys minutes to read
    options = f"-family {FAMILY} -noiopad -noclkbuf -top {name}"
    script = "; ".join(
        [
            f"read_verilog {name}.v",
            f"synth_intel_alm {options} -run begin:map_bram",
            f"tee -q -o {name}.memories dump t:$mem t:$mem_v2",
            f"synth_intel_alm {options} -run map_ffs:check",  # memories stay what they are: they are counted apart
            f"tee -q -o {name}.cells stat -json",
            f"tee -q -o {name}.delays sta",
        ]
    )
    run_yosys(script, folder)
    text = (folder / f"{name}.cells").read_text()
    cells: dict[str, int] = json.loads(text[text.index("{") :])["modules"][f"\\{name}"]["num_cells_by_type"]
    found = of_cells(cells, memories((folder / f"{name}.memories").read_text()))
    return dataclasses.replace(found, cells_ns=longest_ns((folder / f"{name}.delays").read_text()))


def longest_ns(report: str) -> float:
    """The longest path in what Yosys's `sta` writes, which is in ps."""
    latest = re.search(r"^Latest arrival time in '.*' is (\d+):$", report, re.M)
    assert latest is not None, report[:400]
    return int(latest[1]) / 1e3


def memories(dump: str) -> list[tuple[int, int]]:
    """Words and bits of each memory that Yosys has written out."""
    found = []
    for cell in re.split(r"^\s*cell ", dump, flags=re.M)[1:]:
        words, bits = (re.search(rf"parameter (?:signed )?\\{name} (\d+)", cell) for name in ("SIZE", "WIDTH"))
        assert words is not None, cell
        assert bits is not None, cell
        found.append((int(words[1]), int(bits[1])))
    return found


def of_cells(cells: dict[str, int], shapes: list[tuple[int, int]]) -> Estimate:
    """The estimate for cells, by type, and memories, by words and bits."""
    functions = {inputs: cells.get(f"MISTRAL_ALUT{inputs}", 0) for inputs in range(2, 7)}
    small = cells.get("MISTRAL_NOT", 0) + functions[2] + functions[3] + functions[4]
    adders = cells.get("MISTRAL_ALUT_ARITH", 0)
    flip_flops = sum(count for kind, count in cells.items() if kind.startswith("MISTRAL_") and kind.endswith("FF"))
    logic = functions[6] + functions[5] + math.ceil((small + adders) / 2)
    shallow = sum(math.ceil(bits / _MLAB_BITS) * _MLAB_ALMS for words, bits in shapes if words <= _MLAB_WORDS)
    return Estimate(
        alms=max(logic, math.ceil(flip_flops / 4)) + shallow,
        aluts=sum(functions.values()) + adders + cells.get("MISTRAL_NOT", 0),
        flip_flops=flip_flops,
        m20k=sum(_blocks(words, bits) for words, bits in shapes if words > _MLAB_WORDS),
        dsp=sum(count for kind, count in cells.items() if kind.startswith("MISTRAL_MUL")),
    )


def _blocks(words: int, bits: int) -> int:
    """M20Ks of a memory with one port to write and one to read."""
    return min(math.ceil(words / deep) * math.ceil(bits / wide) for deep, wide in _M20K)
