"""Boards with an Alveo card, built with Vitis."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muntin.contract.design import design_of
from muntin.contract.opencl import KERNEL, VITIS
from muntin.hw.boards.board_build import BoardBuild
from muntin.hw.boards.tools import Steps, ToolMissingError, run_script, script, version_of

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints" / "u55c"
SCRIPT = "build.sh"
SOURCE = f"{KERNEL}.v"
DESCRIPTION = "kernel.xml"
OBJECT = f"{KERNEL}.xo"
LINK = "link.cfg"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VitisBoard(BoardBuild):
    """A card whose memory is HBM, built with AMD's Vitis.

    A design is an RTL kernel: each of its memory ports is at a pseudo-channel of the HBM, the list of requests at the
    next one.
    """

    def files(self, design: str, steps: Steps) -> dict[str, str]:
        from muntin.hw.boards.linked_kernel import kernel_of
        from muntin.hw.conversion import to_verilog, without_zeros
        from muntin.hw.opencl.manifest import kernel_xml
        from muntin.hw.opencl.vitis_kernel import VitisKernel

        p = self.parameters[design]
        module = VitisKernel(*kernel_of(p), p)
        with steps.step("RTL kernel to Verilog"):
            text = without_zeros(to_verilog(module, KERNEL))
        part = self.part.split()[-1]
        names = {
            "kernel": KERNEL,
            "verilog": SOURCE,
            "description": DESCRIPTION,
            "object": OBJECT,
            "part": part,
            "masters": f"{{{' '.join(module.masters)}}}",
        }
        sets = "".join(f"set {name} {value}\n" for name, value in names.items())
        return {
            SOURCE: text,
            DESCRIPTION: kernel_xml(module, p),
            "package.tcl": sets + (CONSTRAINTS / "package.tcl").read_text(),
            LINK: self._link(module, p),
            SCRIPT: script(
                "vivado -mode batch -notrace -source package.tcl",
                f"v++ --link --target hw --platform {self.shell} --config {LINK} --output {VITIS.binary} {OBJECT}",
            ),
        }

    def _link(self, module: Any, p: Any) -> str:
        """What the linker is told: one kernel, which memory each argument lies in, and the clock."""
        from muntin.contract.opencl import arguments

        ports = len(module.masters) - 1
        lines = ["[connectivity]", f"nk={KERNEL}:1:{KERNEL}_1"]
        for argument in arguments(p):
            if argument.pointer:
                number = re.fullmatch(r"memory_(\d+)", argument.name)
                lines.append(f"sp={KERNEL}_1.{argument.name}:HBM[{number[1] if number else ports}]")
        return "\n".join([*lines, "", "[clock]", f"freqHz={p.clock_hz}:{KERNEL}_1", ""])

    def tools(self) -> Mapping[str, str]:
        return {name: version_of(name) for name in ("vivado", "v++")}

    def make(self, design: str, folder: Path, steps: Steps) -> dict[str, Any]:
        missing = [name for name in ("vivado", "v++") if shutil.which(name) is None]
        if missing:
            named = "" if design_of(self.parameters[design]).engine == "runs" else f":design={design}"
            raise ToolMissingError(
                f"{', '.join(missing)} not found: the steps from here to {VITIS.binary} need AMD's Vitis and the "
                f"platform {self.shell}. Everything up to there is in {folder}: on a machine that has these tools on "
                f"its PATH, run `sh {SCRIPT}` in that folder, or this command again. Nothing that was written has been "
                f'through them. Then `device="board:{self.name}:FOLDER{named}"` loads FOLDER/{VITIS.binary}.'
            )
        run_script(folder, SCRIPT, VITIS.binary, steps)
        return {"bitstream": VITIS.binary, "parameters": dataclasses.asdict(self.parameters[design])}
