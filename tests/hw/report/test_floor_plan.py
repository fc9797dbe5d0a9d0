"""Cores placed as one of them by itself."""

import dataclasses
import json

import pytest

from bench.area.ecp5 import place_and_route, synthesize
from bench.area.floor_plan import SLOTS, WIDTH, gather_memory, places, plan
from bench.area.ring import Ring
from muntin.contract import ParameterError
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.join_core import JoinCore

TINY = dataclasses.replace(
    SplitJoinParameters.preset("ecp5"), cores=2, rows=256, probe_rows=1, result_rows=2, fan_out=2, fan_in=2
)


def register(bit: int, *, enable: object = "1", of: object = "0") -> dict:
    connections = {"CLK": [2], "CE": [enable], "LSR": ["0"], "DI": [of], "Q": [bit]}
    return {"type": "TRELLIS_FF", "connections": connections, "parameters": {"CEMUX": "CE"}}


def table(bit: int) -> dict:
    return {"type": "LUT4", "connections": {"A": [1], "Z": [bit]}, "parameters": {}}


def netlist(path, cells: dict, names: dict[str, list[int]]) -> None:
    nets = {name: {"bits": bits} for name, bits in names.items()}
    path.write_text(json.dumps({"modules": {"x": {"attributes": {"top": "1"}, "cells": cells, "netnames": nets}}}))


def bels(path) -> dict[str, str]:
    cells = json.loads(path.read_text())["modules"]["x"]["cells"]
    return {name: cell["attributes"]["BEL"] for name, cell in cells.items() if "attributes" in cell}


def test_all_cores_stand_as_the_first(tmp_path):
    first = {"left.row#0": "X5/Y20/SLICEA.FF0", "left.row#1": "X5/Y20/SLICEA.FF1", "left.key_0.0": "X4/Y22/EBR0"}
    cells, names = {}, {}
    for core in range(len(SLOTS)):
        cells[f"$flatten\\block.core_{core}.$a"] = register(10 * core + 10)
        cells[f"$flatten\\block.core_{core}.$b"] = register(10 * core + 11)
        cells[f"block.core_{core}.left.key_0.0"] = {"type": "DP16KD", "connections": {}, "parameters": {}}
        names[f"block.core_{core}.left.row"] = [10 * core + 10, 10 * core + 11]
    cells["$merger"] = register(5)
    names["block.core_0.left.row_seen_elsewhere"] = [5]
    netlist(tmp_path / "ring.json", cells, names)
    assert plan(tmp_path / "ring.json", first) == 3 * len(SLOTS)
    found = bels(tmp_path / "ring.json")
    assert found["$flatten\\block.core_0.$b"] == "X5/Y20/SLICEA.FF1"
    assert found["$flatten\\block.core_1.$a"] == "X32/Y20/SLICEA.FF0"
    assert found["$flatten\\block.core_2.$a"] == "X5/Y68/SLICEA.FF0"
    assert found["block.core_7.left.key_0.0"] == "X96/Y70/EBR0"
    assert "$merger" not in found
    assert len(set(found.values())) == len(found)


def test_what_does_not_fit_is_left_to_the_placer(tmp_path):
    first = {"a#0": f"X{2 + WIDTH}/Y20/SLICEA.FF0", "b#0": "X5/Y20/SLICEB.FF0", "c#0": "X5/Y20/SLICEB.FF1"}
    first |= {"d#0": "X5/Y20/SLICEC.FF0", "e#0": "X5/Y20/SLICEC.FF0"}
    cells = {f"block.core_1.{name}": register(bit, enable=bit) for bit, name in enumerate("abc", 10)}
    cells |= {f"block.core_1.{name}": register(bit) for bit, name in enumerate("def", 20)}
    names = {f"block.core_1.{name}": [bit] for bit, name in (*enumerate("abc", 10), *enumerate("def", 20))}
    netlist(tmp_path / "ring.json", cells, names)
    assert plan(tmp_path / "ring.json", first) == 2
    # Beyond the core's width; of another enable than what shares its slice; a place that is taken; not in the first.
    assert set(bels(tmp_path / "ring.json")) == {"block.core_1.b", "block.core_1.d"}


def test_a_register_and_the_look_up_table_before_it_stand_together(tmp_path):
    bel = "X5/Y20/SLICE{}.FF0".format
    first = {f"{name}#0": bel(part) for name, part in zip("abcd", "ABCD", strict=True)}
    first |= {f"{name}#0": f"X6/Y20/SLICE{part}.FF1" for name, part in zip("ef", "AB", strict=True)}
    place = "block.core_1.{}".format
    cells = {place("a"): register(10, of=30), "own": table(30)}
    cells |= {place("b"): register(11, of=31), place("c"): register(12, of=31), "of_two": table(31)}
    cells |= {place("d"): register(13, of=32)}
    cells |= {"sum": {"type": "CCU2C", "connections": {"S0": [32], "S1": [33]}, "parameters": {}}}
    cells |= {place("e"): register(14, of=10)}  # nothing but a register before it
    cells |= {place("f"): register(15, of=34), "read": table(34) | {"connections": {"A": [1], "B": [35], "Z": [34]}}}
    cells |= {"ram": {"type": "TRELLIS_DPR16X4", "connections": {"DO": [35, 36, 37, 38]}, "parameters": {}}}
    netlist(tmp_path / "ring.json", cells, {place(name): [bit] for bit, name in enumerate("abcdef", 10)})
    assert plan(tmp_path / "ring.json", first) == 2
    assert bels(tmp_path / "ring.json") == {
        place("a"): "X32/Y20/SLICEA.FF0",
        "own": "X32/Y20/SLICEA.K0",
        place("e"): "X33/Y20/SLICEA.FF1",
    }


def test_more_cores_than_there_is_room_for(tmp_path):
    netlist(tmp_path / "ring.json", {"block.core_8.a": register(10)}, {"block.core_8.a": [10]})
    with pytest.raises(ParameterError, match="a floor plan has 8 cores at most, not 9"):
        plan(tmp_path / "ring.json", {})


def test_more_memory_than_stands_side_by_side(tmp_path):
    ram = {"type": "DP16KD", "connections": {}, "parameters": {}}
    cells = {f"block.left_probes.sub_window.key_{at}": dict(ram) for at in range(5)}
    netlist(tmp_path / "ring.json", cells, {})
    with pytest.raises(ParameterError, match="a region's rows must fit 4 block RAMs"):
        gather_memory(tmp_path / "ring.json")


@pytest.mark.full
def test_a_core_and_where_it_stands(tmp_path):
    """Through the tools: nextpnr takes the places, and a core that has those of its own registers keeps them."""
    ring = synthesize(Ring(JoinCore(TINY, index=0)), tmp_path, "core")
    gather_memory(ring)
    routed = place_and_route(ring, seed=1, speed=8, goal_mhz=250)
    found = places(ring, routed.placed)
    memory = {place for place in found.values() if "EBR" in place}
    assert memory == {f"X{column}/Y22/EBR{at}" for column, at in ((4, 0), (6, 1), (13, 0), (15, 1))}
    assert len(set(found.values())) > 300
