"""An AXI4 port, or one half of it."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Axi4Signature(wiring.Signature):
    """The channels of AXI4, seen from the master, under the names of the AXI specification.

    Parameters
    ----------
    address_width, data_width, id_width : int
        Widths in bits.
    read, write : bool
        Whether the read channels (AR, R) and the write channels (AW, W, B) are there.

    Attributes
    ----------
    address_width, data_width, id_width : int
        As given.
    """

    def __init__(
        self, address_width: int, data_width: int, id_width: int = 1, *, read: bool = True, write: bool = True
    ):
        self.address_width = address_width
        self.data_width = data_width
        self.id_width = id_width
        members = {}
        if read:
            members |= _address("ar", address_width, id_width)
            members |= {
                "rvalid": In(1),
                "rready": Out(1),
                "rid": In(id_width),
                "rdata": In(data_width),
                "rresp": In(2),
                "rlast": In(1),
            }
        if write:
            members |= _address("aw", address_width, id_width)
            members |= {
                "wvalid": Out(1),
                "wready": In(1),
                "wdata": Out(data_width),
                "wstrb": Out(data_width // 8),
                "wlast": Out(1),
                "bvalid": In(1),
                "bready": Out(1),
                "bid": In(id_width),
                "bresp": In(2),
            }
        super().__init__(members)


def _address(channel: str, address_width: int, id_width: int) -> dict[str, wiring.Member]:
    return {
        f"{channel}valid": Out(1),
        f"{channel}ready": In(1),
        f"{channel}id": Out(id_width),
        f"{channel}addr": Out(address_width),
        f"{channel}len": Out(8),
        f"{channel}size": Out(3),
        f"{channel}burst": Out(2),
    }
