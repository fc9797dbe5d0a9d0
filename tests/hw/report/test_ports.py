"""Components whose streams are always ready, as reports export them."""

import pytest

pytest.importorskip("amaranth")

from amaranth.back import rtlil

from bench.area.ecp5 import ports
from bench.area.ring import Ring
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.join_core import JoinCore


def _core():
    return JoinCore(SplitJoinParameters.preset("tiny"), index=0)


def test_constants_are_no_ports():
    core = _core()
    names = {port.name for port in ports(core)}
    assert {"i__payload", "i__valid", "room", "left__pair", "left_room", "settings__low"} <= names
    assert "i__ready" not in names
    assert "module \\core" in rtlil.convert(core, name="core", ports=ports(core), emit_src=False)


def test_a_ring_goes_round_them():
    assert "module \\ring" in rtlil.convert(Ring(_core()), name="ring", emit_src=False)
