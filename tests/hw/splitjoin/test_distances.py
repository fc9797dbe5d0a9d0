"""How far places lie apart, as storage asks for it."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from muntin.hw.splitjoin.nested_loop import _fits, _less


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_fits(rows):
    """For all places, with a store when the distance is taken and when it is asked for: it is less than all rows."""
    places = 4 * rows
    m = Module()
    place, other, before = Signal(range(places)), Signal(range(places)), Signal(range(places))
    taken, asked, fits = Signal(), Signal(), Signal()
    m.d.comb += [before.eq(_less(place, other, taken)), fits.eq(_fits(before, asked, rows))]

    async def bench(sim):
        for number in range(places * places * 4):
            sides = (number // 4 // places, number // 4 % places, number // 2 % 2, number % 2)
            for signal, value in zip((place, other, taken, asked), sides, strict=True):
                sim.set(signal, value)
            await sim.delay(1e-9)
            distance = (sides[0] - sides[1] + sides[2]) % places
            assert sim.get(fits) == (distance + sides[3] < rows), sides

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
