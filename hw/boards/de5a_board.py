"""Terasic's DE5a-Net, built with the vendor's tools."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muntin.contract.design import design_of
from muntin.contract.opencl import (
    BUILD_HEADER,
    HEADER,
    INTEL,
    KERNELS,
    LIBRARY,
    MANIFEST,
    MODEL,
    MODULE,
    OBJECT,
    VERILOG,
)
from muntin.hw.boards.board_build import BoardBuild
from muntin.hw.boards.tools import Steps, ToolMissingError, run_script, script, version_of

SCRIPT = "build.sh"
PROJECT = "muntin"
COMPONENT = "muntin_kernel"


@dataclasses.dataclass(frozen=True, kw_only=True)
class De5aBoard(BoardBuild):
    """A board with an Arria 10, built with Intel's tools.

    A design is an RTL library for the vendor's OpenCL shell, or one of its `projects`, a Quartus project of its own.

    Parameters
    ----------
    global_address_bits : int
        Bits of an address of the shell's global memory.
    project_hz : int
        Clock of the kernel in a project of its own.
    """

    global_address_bits: int
    project_hz: int

    def files(self, design: str, steps: Steps) -> dict[str, str]:
        p = self.parameters[design]
        if design in self.projects:
            return self._project(p, steps)
        return self._library(p, steps)

    def _library(self, p: Any, steps: Steps) -> dict[str, str]:
        from muntin.contract.opencl import build_header, declaration, kernels, model
        from muntin.hw.boards.linked_kernel import kernel_of
        from muntin.hw.conversion import to_verilog, without_zeros
        from muntin.hw.opencl.manifest import manifest
        from muntin.hw.opencl.rtl_module import RtlModule

        module = RtlModule(*kernel_of(p), address_bits=self.global_address_bits)
        with steps.step("RTL module to Verilog"):
            text = without_zeros(to_verilog(module, MODULE))
        return {
            VERILOG: text,
            MANIFEST: manifest(module),
            HEADER: declaration(p),
            KERNELS: kernels(p),
            MODEL: model(p),
            BUILD_HEADER: build_header(p),
            SCRIPT: script(
                f"aocl library hdl-comp-pkg {MANIFEST} -o {OBJECT}",
                f"aocl library create -name {LIBRARY.removesuffix('.aoclib')} {OBJECT}",
                # Each memory channel is a bank of its own, and the host says which buffer goes where.
                f"aoc -v -l {LIBRARY} -L . -I . -board={self.shell} -no-interleaving=default "
                f"-o {INTEL.binary} {KERNELS}",
            ),
        }

    def _project(self, p: Any, steps: Steps) -> dict[str, str]:
        from muntin.hw.boards.axi_component import AxiKernel, axi_component
        from muntin.hw.boards.de5a_platform import CONSTRAINTS, SYSTEM, De5aPlatform, De5aTop
        from muntin.hw.boards.linked_kernel import kernel_of
        from muntin.hw.conversion import to_verilog, without_zeros

        kernel = AxiKernel(kernel_of(p)[0])
        component = axi_component(kernel, COMPONENT, p.outstanding)
        with steps.step("kernel to Verilog"):
            text = without_zeros(to_verilog(kernel, COMPONENT))
        settings = [
            'set_global_assignment -name FAMILY "Arria 10"',
            f"set_global_assignment -name QIP_FILE {SYSTEM}/synthesis/{SYSTEM}.qip",
            f"set_global_assignment -name SDC_FILE {PROJECT}.sdc",
        ]
        with steps.step("pins and top"):
            plan = De5aPlatform().prepare(
                De5aTop(),
                name=PROJECT,
                add_settings="\n".join(settings),
                add_constraints=(CONSTRAINTS / "timing.sdc").read_text(),
                emit_src=False,
            )
        made = {name: _text(plan.files[name]) for name in (f"{PROJECT}.v", f"{PROJECT}.qsf", f"{PROJECT}.sdc")}
        return {
            **made,
            f"{PROJECT}.qpf": f'PROJECT_REVISION = "{PROJECT}"\n',
            f"{COMPONENT}.v": text,
            f"{COMPONENT}_hw.tcl": component,
            "system.tcl": f"set kernel_mhz {self.project_hz / 1e6}\n" + (CONSTRAINTS / "system.tcl").read_text(),
            SCRIPT: script(
                'qsys-script --script=system.tcl --search-path=".,$"',
                f'qsys-generate {SYSTEM}.qsys --synthesis=VERILOG --search-path=".,$"',
                f"quartus_sh --flow compile {PROJECT}",
            ),
        }

    def _use(self, design: str) -> str:
        """What to do with what was made."""
        if design in self.projects:
            return "Then load it with quartus_pgm, and reach it over JTAG with System Console."
        named = "" if design_of(self.parameters[design]).engine == "runs" else f":design={design}"
        return f'Then `device="board:{self.name}:FOLDER{named}"` loads FOLDER/{INTEL.binary}.'

    def tools(self) -> Mapping[str, str]:
        return {name: version_of(name) for name in ("aocl", "aoc", "qsys-script", "qsys-generate", "quartus_sh")}

    def make(self, design: str, folder: Path, steps: Steps) -> dict[str, Any]:
        if design in self.projects:
            needed, suite, made = ("qsys-script", "qsys-generate", "quartus_sh"), _QUARTUS, f"{PROJECT}.sof"
        else:
            needed, suite, made = ("aocl", "aoc"), _SDK.format(shell=self.shell), INTEL.binary
        missing = [name for name in needed if shutil.which(name) is None]
        if missing:
            raise ToolMissingError(
                f"{', '.join(missing)} not found: the steps from here to {made} need {suite}. Everything up to there "
                f"is in {folder}: on a machine that has these tools on its PATH, run `sh {SCRIPT}` in that folder, or "
                f"this command again. Nothing that was written has been through them. {self._use(design)}"
            )
        run_script(folder, SCRIPT, made, steps)
        return {"bitstream": made, "parameters": dataclasses.asdict(self.parameters[design])}


_SDK = (
    "the Intel FPGA SDK for OpenCL (17.1 to 18.1, as these commands are of those releases: 17.1 is the first that asks "
    "for -board= with one dash), a Quartus Prime with the Arria 10 devices and its licence, and Terasic's board "
    "support package with the board {shell}, named by AOCL_BOARD_PACKAGE_ROOT"
)
_QUARTUS = "Quartus Prime Standard Edition 16.0 or newer with the Arria 10 devices and its licence"


def _text(content: str | bytes) -> str:
    return content if isinstance(content, str) else content.decode()
