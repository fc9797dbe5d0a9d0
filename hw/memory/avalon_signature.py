"""An Avalon memory-mapped port that reads, or one that writes."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class AvalonSignature(wiring.Signature):
    """A pipelined Avalon memory-mapped port with bursts, seen from the host, that either reads or writes.

    Parameters
    ----------
    address_width : int
        Bits of a byte address.
    data_width : int
        Bits of a beat.
    burst_width : int
        Bits of `burstcount`: the longest burst has ``1 << (burst_width - 1)`` beats.
    write : bool
        Whether it writes; else it reads.

    Attributes
    ----------
    address_width, data_width, burst_width, write
        As given.

    Source
    ------
    Avalon Interface Specifications, "Avalon Memory-Mapped Interfaces". `writeack` is not of that specification: it is
    an addition of the OpenCL SDK's, and does what `writeresponsevalid` does there.
    """

    def __init__(self, address_width: int, data_width: int, burst_width: int, *, write: bool):
        self.address_width = address_width
        self.data_width = data_width
        self.burst_width = burst_width
        self.write = write
        members = {
            "address": Out(address_width),
            "burstcount": Out(burst_width),
            "waitrequest": In(1),
        }
        if write:
            members |= {
                "write": Out(1),
                "writedata": Out(data_width),
                "byteenable": Out(data_width // 8),
                "writeack": In(1),
            }
        else:
            members |= {"read": Out(1), "readdata": In(data_width), "readdatavalid": In(1)}
        super().__init__(members)
