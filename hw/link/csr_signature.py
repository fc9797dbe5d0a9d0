"""The bus of LiteX's control and status registers."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class CsrSignature(wiring.Signature):
    """The bus of LiteX's control and status registers, seen from the master.

    Attributes
    ----------
    adr : Out(14)
        A word. What it holds is in `dat_r` in the next cycle.
    re, we : Out(1)
        Read, write in this cycle.
    dat_w : Out(32)
    dat_r : In(32)
    """

    def __init__(self) -> None:
        super().__init__({"adr": Out(14), "re": Out(1), "we": Out(1), "dat_w": Out(32), "dat_r": In(32)})
