"""A monitor of a port that writes."""

from cocotb.handle import SimHandleBase
from cocotb.triggers import RisingEdge


async def whole_bursts(dut: SimHandleBase) -> None:
    """Watches for ever that `wvalid` does not fall inside a burst."""
    inside = False
    while True:
        await RisingEdge(dut.clk)
        if inside:
            assert dut.axi__wvalid.value == 1, "the writer made the memory wait"
        if dut.axi__wvalid.value == 1 and dut.axi__wready.value == 1:
            inside = dut.axi__wlast.value != 1
