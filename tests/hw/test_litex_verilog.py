"""Modules of Migen as Verilog."""

from migen import Module, Signal

from muntin.hw.litex_verilog import litex_verilog


def _verilog() -> str:
    top, bits, inverted = Module(), Signal(50, name_override="bits"), Signal(50, name_override="inverted")
    for number in range(50):
        one = Signal(name_override="one")
        top.comb += [one.eq(bits[number]), inverted[number].eq(~one)]
    return litex_verilog(top, "top", {bits, inverted})


def test_the_text_does_not_depend_on_what_was_made_before():
    """Each module's signals have other numbers than those of the one before, and with them another order in sets."""
    assert len({_verilog() for _ in range(40)}) == 1


def test_no_comment_tells_the_time():
    assert "//" not in _verilog()
