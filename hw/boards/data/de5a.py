"""Terasic's DE5a-Net with two DDR3 SO-DIMMs: the paper's board.

Sources: the part and the memory's rate, PanJoin, section V; one rank of 4 GiB on each channel, the memory settings of
uob-mu3e/test_stand_frontend for that board (64 bits, 16 row lines, 10 columns, 8 banks); the shell's name, the
documentation of Chameleon Cloud's FPGA nodes. Not public: how wide the shell's memory interface is and how long its
bursts may be. What the SDK's guide has in its examples is taken, 512 bits and 16 beats, which is also what 64 bits of
DDR3 give at a quarter of its clock; the package's board_spec.xml says what holds.
"""

import dataclasses

from muntin.hw.boards.de5a_board import De5aBoard
from muntin.hw.parameters import Parameters
from muntin.hw.splitjoin.parameters import SplitJoinParameters

_PRESET = Parameters.preset("de5a")
_SHELL = dataclasses.replace(_PRESET, burst_bytes=16 * _PRESET.beat_bytes)
_PROJECT_HZ = 200_000_000

BOARD = De5aBoard(
    name="de5a",
    description="Terasic DE5a-Net: Intel Arria 10, 2 x 4 GiB of DDR3, PCIe, built with the OpenCL SDK or Quartus",
    part="Intel 10AX115N2F45E1SG",
    memory_bytes=2 * (15 << 28),  # of each channel's 4 GiB, a sixteenth is left to requests and the shell
    parameters={
        "bisort": _SHELL,
        "bisort64": dataclasses.replace(_SHELL, key_bits=64),
        "splitjoin": dataclasses.replace(
            SplitJoinParameters.preset("operator"),
            cores=32,
            data_bits=_SHELL.data_bits,
            address_bits=_SHELL.address_bits - 1,  # one of the two channels
            burst_bytes=_SHELL.burst_bytes,
            turn_bytes=_SHELL.turn_bytes,
            alternate_bytes=_SHELL.alternate_bytes,
            clock_hz=_SHELL.clock_hz,
        ),
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
    global_address_bits=33,
    project_hz=_PROJECT_HZ,
)
