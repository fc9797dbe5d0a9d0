"""The boards, as data: what is built for each, where the host reaches it, and what a design says of itself."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import zlib
from collections.abc import Mapping
from typing import Any

from muntin.contract import ParameterError, UnknownBoardError
from muntin.contract.design import design_of
from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.contract.opencl import INTEL, VITIS, Shell
from muntin.contract.registers import parameter_values


@dataclasses.dataclass(frozen=True, kw_only=True)
class SerialLine:
    """The serial line of a board, and the USB bridge that it is behind.

    Parameters
    ----------
    baud : int
        Bits a second.
    usb : (int, int)
        Vendor and product of the bridge.
    usb_ports, usb_port : int
        Serial ports that one bridge shows, and which of them it is.
    """

    baud: int
    usb: tuple[int, int]
    usb_ports: int
    usb_port: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class EthernetLine:
    """The Ethernet of a board: where its link is found, and how its pins are timed.

    Parameters
    ----------
    ip : str
        The board's IPv4 address, built into its bitstream.
    port : int
        The UDP port of the link.
    mac : int
        The board's Ethernet address: one for a single station.
    transmit_delay_ps, receive_delay_ps : int
        Picoseconds by which the FPGA delays its clock to, and the data from, the board's RGMII chip, 0 to 3175; what
        the chip and the board do not delay themselves.

    Raises
    ------
    ParameterError
        If a value is none of these.
    """

    ip: str
    port: int
    mac: int
    transmit_delay_ps: int
    receive_delay_ps: int

    def __post_init__(self) -> None:
        try:
            address = ipaddress.IPv4Address(self.ip)
        except ValueError as error:
            raise ParameterError(f"ip must be an IPv4 address such as '192.168.1.50', not {self.ip!r}") from error
        if address.is_multicast or address.is_unspecified or int(address) & 0xFF in (0, 0xFF):
            raise ParameterError(f"ip must be the address of one station, not {self.ip!r}")
        if not 0 < self.port < 1 << 16:
            raise ParameterError(f"port must be from 1 to 65535, not {self.port!r}")
        if not 0 < self.mac < 1 << 48 or self.mac >> 40 & 1:
            raise ParameterError(f"mac must be the address of one station, not {self.mac:#014x}")
        for name in ("transmit_delay_ps", "receive_delay_ps"):
            if not 0 <= getattr(self, name) < 128 * 25:
                raise ParameterError(f"{name} must be from 0 to 3175, not {getattr(self, name)!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Board:
    """A board: what whoever drives it knows of it. How it is built is in `muntin.hw.boards`.

    Parameters
    ----------
    name : str
        What is written in ``BOARD=``.
    description : str
        One line: the part, its memory, what builds it.
    part : str
        The FPGA's name with its vendor.
    memory_bytes : int
        Bytes of memory on all its channels together.
    parameters : mapping of str to object
        What is built for each design that the board has; the first is the default.
    serial : SerialLine, optional
        Where the host reaches it.
    ethernet : EthernetLine, optional
        Where the host reaches it, too.
    serial_only : tuple of str
        Designs that leave out Ethernet.
    shell : str
        The board's name in the vendor's OpenCL SDK; empty where it has no such shell.
    sdk : Shell, optional
        That SDK.
    projects : tuple of str
        Designs that are projects of their own, and not behind the shell.
    """

    name: str
    description: str
    part: str
    memory_bytes: int
    parameters: Mapping[str, Any]
    serial: SerialLine | None = None
    ethernet: EthernetLine | None = None
    serial_only: tuple[str, ...] = ()
    shell: str = ""
    sdk: Shell | None = None
    projects: tuple[str, ...] = ()

    @property
    def designs(self) -> tuple[str, ...]:
        """Designs that the board can be built with, the default first."""
        return tuple(self.parameters)

    def design(self, name: str | None) -> str:
        """That design, or the default one for None or an empty name.

        Raises
        ------
        UnknownBoardError
            If the board has none of that name, with those it has.
        """
        if not name:
            return self.designs[0]
        if name not in self.designs:
            raise UnknownBoardError(f"board {self.name} has no design {name!r}: there are {', '.join(self.designs)}")
        return name

    def builds(self, engine: str) -> dict[str, Any]:
        """What is built for each design that joins by that `Design.engine`, by the design's name."""
        return {name: of for name, of in self.parameters.items() if design_of(of).engine == engine}

    def ethernet_of(self, design: str) -> EthernetLine | None:
        """Where the host reaches that design over Ethernet; None where it does not."""
        return None if design in self.serial_only else self.ethernet

    def in_shell(self, design: str) -> bool:
        """Whether a design is behind the OpenCL shell."""
        return bool(self.shell) and design not in self.projects


def board(name: str) -> Board:
    """The board of that name.

    Raises
    ------
    UnknownBoardError
        If there is none, with those there are.
    """
    if name not in BOARDS:
        raise UnknownBoardError(f"there is no board {name!r}: there are {', '.join(BOARDS)}")
    return BOARDS[name]


def to_description(
    *, board: str, design: str, parameters: Any, clock_hz: int, memory_bytes: int, start: dict[str, Any]
) -> bytes:
    """What a design says of itself: JSON, compressed.

    Parameters
    ----------
    board, design : str
        As in ``BOARD=`` and ``DESIGN=``.
    parameters : dataclass
        What the kernel is built with.
    clock_hz : int
        The kernel's clock.
    memory_bytes : int
    start : dict
        How the memory is started; see `muntin.hw.dram.start_description`.
    """
    content = {
        "board": board,
        "design": design,
        "parameters": parameter_values(parameters),
        "clock_hz": clock_hz,
        "memory_bytes": memory_bytes,
        "start": start,
    }
    return zlib.compress(json.dumps(content, separators=(",", ":"), sort_keys=True).encode(), 9)


def from_description(raw: bytes) -> dict[str, Any]:
    """What `to_description` was given.

    Raises
    ------
    ValueError
        If this is no such description.
    """
    try:
        content = json.loads(zlib.decompress(raw))
    except (zlib.error, ValueError) as error:
        raise ValueError(f"this is no description of a design: {error}") from error
    missing = {"board", "design", "parameters", "clock_hz", "memory_bytes", "start"} - set(content)
    if missing:
        raise ValueError(f"the description lacks {', '.join(sorted(missing))}")
    return content


def _split_join(cores: int, beside: Parameters) -> SplitJoinParameters:
    """A SplitJoin for all that the operator asks for, at one memory channel as that build of BI-Sort has it."""
    return dataclasses.replace(
        SplitJoinParameters.preset("operator"),
        cores=cores,
        data_bits=beside.data_bits,
        address_bits=beside.address_bits - (beside.channels.bit_length() - 1),
        burst_bytes=beside.burst_bytes,
        turn_bytes=beside.turn_bytes,
        alternate_bytes=beside.alternate_bytes,
        clock_hz=beside.clock_hz,
    )


_PRESET = Parameters.preset("de5a")
_SHELL = dataclasses.replace(_PRESET, burst_bytes=16 * _PRESET.beat_bytes)
_PROJECT_HZ = 200_000_000

# Terasic's DE5a-Net with two DDR3 SO-DIMMs, the paper's board. Sources: the part and the memory's rate, PanJoin,
# section V; one rank of 4 GiB on each channel, the memory settings of uob-mu3e/test_stand_frontend for that board (64
# bits, 16 row lines, 10 columns, 8 banks); the shell's name, the documentation of Chameleon Cloud's FPGA nodes. Not
# public: how wide the shell's memory interface is and how long its bursts may be. What the SDK's guide has in its
# examples is taken, 512 bits and 16 beats, which is also what 64 bits of DDR3 give at a quarter of its clock; the
# package's board_spec.xml says what holds.
_DE5A = Board(
    name="de5a",
    description="Terasic DE5a-Net: Intel Arria 10, 2 x 4 GiB of DDR3, PCIe, built with the OpenCL SDK or Quartus",
    part="Intel 10AX115N2F45E1SG",
    memory_bytes=2 * (15 << 28),  # of each channel's 4 GiB, a sixteenth is left to requests and the shell
    parameters={
        "bisort": _SHELL,
        "bisort64": dataclasses.replace(_SHELL, key_bits=64),
        "splitjoin": _split_join(32, _SHELL),
        "bisort-quartus": dataclasses.replace(_PRESET, clock_hz=_PROJECT_HZ),
        "splitjoin-quartus": dataclasses.replace(
            SplitJoinParameters.preset("ecp5"),
            cores=16,
            data_bits=_PRESET.data_bits,
            burst_bytes=_PRESET.burst_bytes,
            turn_bytes=_PRESET.turn_bytes,
            alternate_bytes=_PRESET.alternate_bytes,
            clock_hz=_PROJECT_HZ,
        ),
    },
    shell="de5a_net_e1",
    sdk=INTEL,
    projects=("bisort-quartus", "splitjoin-quartus"),
)

# AMD's Alveo U55C: a lane on each of eight pseudo-channels of its HBM2, each 256 bits wide, 512 MiB.
# Sources: the channels, AMD's product guide of the HBM controller (PG276); the part and the platform's name, its data
# sheet (DS978) and installation guide (UG1468).
_HBM = dataclasses.replace(
    _PRESET,
    width=4,
    lanes=8,
    channels=1,
    data_bits=256,
    address_bits=29,
    burst_bytes=4096,
    clock_hz=300_000_000,
)
_U55C = Board(
    name="u55c",
    description="AMD Alveo U55C: Virtex UltraScale+ HBM, 16 GiB of HBM2, PCIe, built with Vitis",
    part="AMD xcu55c-fsvh2892-2L-e",
    memory_bytes=_HBM.lanes * (15 << 25),  # of each channel's 512 MiB a sixteenth is left to the shell
    parameters={
        "bisort": _HBM,
        "bisort64": dataclasses.replace(_HBM, key_bits=64),
        "splitjoin": _split_join(64, _HBM),
    },
    shell="xilinx_u55c_gen3x16_xdma_3_202210_1",
    sdk=VITIS,
)

# LambdaConcept's ECPIX-5 with an ECP5-85. Source of the delays of Ethernet: litex-boards.
_ECPIX5 = Board(
    name="ecpix5",
    description="LambdaConcept ECPIX-5: Lattice LFE5UM5G-85F, 512 MiB of DDR3, built with Yosys, nextpnr and Trellis",
    part="Lattice LFE5UM5G-85F-8BG554",
    memory_bytes=1 << 29,
    parameters={
        "bisort": Parameters.preset("ecpix5"),
        "bisort-ethernet": Parameters.preset("ecpix5"),
        "splitjoin": SplitJoinParameters.preset("ecpix5"),
    },
    serial_only=("bisort", "splitjoin"),
    serial=SerialLine(baud=1_000_000, usb=(0x0403, 0x6010), usb_ports=2, usb_port=1),
    ethernet=EthernetLine(
        ip="192.168.1.50", port=19788, mac=0x024D_4C4B_0501, transmit_delay_ps=2000, receive_delay_ps=0
    ),
)

# Radiona's ULX3S with an ECP5-85. Source of what is at its USB: FTDI's data sheet of the FT231X, whose one port is both
# the serial line and, by other pins, JTAG.
_ULX3S = Board(
    name="ulx3s",
    description="Radiona ULX3S 85F: Lattice LFE5U-85F, 32 MiB of SDR SDRAM, built with Yosys, nextpnr and Trellis",
    part="Lattice LFE5U-85F-6BG381C",
    memory_bytes=1 << 25,
    parameters={"bisort": Parameters.preset("ulx3s")},
    serial=SerialLine(baud=1_000_000, usb=(0x0403, 0x6015), usb_ports=1, usb_port=0),
)

BOARDS: dict[str, Board] = {board.name: board for board in (_DE5A, _U55C, _ECPIX5, _ULX3S)}
