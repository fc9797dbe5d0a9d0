"""The numbers that a probing row matches."""

from amaranth.hdl import Mux, Signal

from muntin.hw.splitjoin.band_sums import BandSums


class ClosedRange:
    """The numbers between two bounds, both inclusive."""

    def __init__(self, bits: int, name: str):
        self.lower = Signal(bits, name=f"{name}_lower", reset_less=True)
        self.upper = Signal(bits, name=f"{name}_upper", reset_less=True)

    def clamp(self, sums: BandSums) -> list:
        """From sums: what lies beyond the numbers there are is cut off; a range of none is one that is
        turned round."""
        greatest = (1 << sums.bits) - 1
        none = sums.upper[-1] | (~sums.lower[-1] & sums.lower[sums.bits])
        low, high = sums.lower[: sums.bits], sums.upper[: sums.bits]
        return [
            self.lower.eq(Mux(none, greatest, Mux(sums.lower[-1], 0, low))),
            self.upper.eq(Mux(none, 0, Mux(sums.upper[sums.bits], greatest, high))),
        ]

    def eq(self, other: "ClosedRange") -> list:
        return [self.lower.eq(other.lower), self.upper.eq(other.upper)]
