"""One AXI4-Lite port for the registers of several lanes."""

from amaranth.hdl import Array, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.contract.registers import LANE_STRIDE
from muntin.hw.control.layouts import Axi4LiteSignature


class LaneDecoder(wiring.Component):
    """Hands each access to the lane whose registers it addresses, `LANE_STRIDE` bytes apart.

    Parameters
    ----------
    lanes : int
        A power of two.
    lane_address_width : int
        Bits of an address within a lane; those between them and the stride do not matter.

    Attributes
    ----------
    axi : In(Axi4LiteSignature)
    lanes : array of Out(Axi4LiteSignature)

    Timing
    ------
    Everything passes through in the same cycle; a write waits until the one before has been answered, and so does
    a read.
    """

    def __init__(self, *, lanes: int, lane_address_width: int):
        self._count = lanes
        super().__init__(
            {
                "axi": In(Axi4LiteSignature(exact_log2(lanes * LANE_STRIDE))),
                "lanes": Out(Axi4LiteSignature(lane_address_width)).array(lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axi, lanes = self.axi, list(self.lanes)
        low = exact_log2(LANE_STRIDE)
        for address, valids, answer in (("aw", ("awvalid", "wvalid"), "b"), ("ar", ("arvalid",), "r")):
            number = getattr(axi, f"{address}addr")[low:]
            free = 1
            for lane in lanes:
                free = free & ~getattr(lane, f"{answer}valid")
            for name in valids:
                ready = name.replace("valid", "ready")
                m.d.comb += getattr(axi, ready).eq(free & Array(getattr(lane, ready) for lane in lanes)[number])
            for at, lane in enumerate(lanes):
                for name in valids:
                    # Both halves of a write are there before either is passed on, so that both go to one lane.
                    there = axi.awvalid & axi.wvalid if address == "aw" else axi.arvalid
                    m.d.comb += getattr(lane, name).eq(free & there & (number == at))
                m.d.comb += getattr(lane, f"{answer}ready").eq(getattr(axi, f"{answer}ready"))
                with m.If(getattr(lane, f"{answer}valid")):
                    m.d.comb += [
                        getattr(axi, f"{answer}valid").eq(1),
                        getattr(axi, f"{answer}resp").eq(getattr(lane, f"{answer}resp")),
                    ]
                    if answer == "r":
                        m.d.comb += axi.rdata.eq(lane.rdata)
        for lane in lanes:
            m.d.comb += [
                lane.awaddr.eq(axi.awaddr),
                lane.awprot.eq(axi.awprot),
                lane.wdata.eq(axi.wdata),
                lane.wstrb.eq(axi.wstrb),
                lane.araddr.eq(axi.araddr),
                lane.arprot.eq(axi.arprot),
            ]
        return m
