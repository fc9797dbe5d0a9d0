"""Comparison of keys with a band."""

from amaranth.hdl import Mux, Signal, Value, signed

from muntin.hw.splitjoin.layouts import Side


class BandSums:
    """A number plus each bound of a band, exactly."""

    def __init__(self, bits: int, name: str):
        self.bits = bits
        self.lower = Signal(signed(bits + 2), name=f"{name}_lower_sum", reset_less=True)
        self.upper = Signal(signed(bits + 2), name=f"{name}_upper_sum", reset_less=True)

    def make(self, number: Value, low: Value, high: Value, side: Side) -> list:
        if side == Side.RIGHT:
            return [self.lower.eq(number + low), self.upper.eq(number + high)]
        return [self.lower.eq(number - high), self.upper.eq(number - low)]

    def take(self, lower: Value, upper: Value) -> list:
        """Bounds that were made elsewhere."""
        return [self.lower.eq(lower), self.upper.eq(upper)]

    @property
    def lower_wide(self) -> Value:
        """The lower sum, clamped to 0..2**bits."""
        above = self.lower[self.bits]
        return Mux(self.lower[-1], 0, Mux(above, 1 << self.bits, self.lower[: self.bits]))


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
