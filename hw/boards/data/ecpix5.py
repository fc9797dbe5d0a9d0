"""LambdaConcept's ECPIX-5 with an ECP5-85."""

from hw.boards.ecp5_board import Ecp5Board
from hw.parameters import Parameters

BOARD = Ecp5Board(
    name="ecpix5",
    description="LambdaConcept ECPIX-5: Lattice LFE5UM5G-85F, 512 MiB of DDR3, built with Yosys, nextpnr and Trellis",
    part="Lattice LFE5UM5G-85F-8BG554",
    memory_bytes=1 << 29,
    parameters={"bisort": Parameters.preset("ecp5")},
)
