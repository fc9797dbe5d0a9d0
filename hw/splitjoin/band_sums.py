"""A number plus each bound of a band."""

from amaranth.hdl import Mux, Signal, Value, signed

from muntin.hw.splitjoin.side import Side


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
