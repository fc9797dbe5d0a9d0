"""What is made of nextpnr's report: clocks that are too slow, the worst path of the slowest, paths between clocks."""

import dataclasses
import io
import json
from pathlib import Path

import pytest

from muntin.hw.boards.board_build import build_of
from muntin.hw.boards.route_report import RouteReport
from muntin.hw.boards.tools import CrossingError, Steps

# Of a register that is synchronized from one clock into another, and a counter that another clock's registers read.
TWO_CLOCKS = Path(__file__).with_name("two_clocks.json")


def _report(system, memory):
    def path(net, *delays):
        parts = [
            {"type": "routing", "delay": delay, "from": {"cell": f"{net}_{at}"}, "to": {"cell": f"{net}_{at + 1}"}}
            for at, delay in enumerate(delays)
        ]
        return {"from": f"posedge $glbnet${net}", "to": f"posedge $glbnet${net}", "path": parts}

    return RouteReport(
        {
            "fmax": {
                "$glbnet$user_clk": {"achieved": system, "constraint": 40.0},
                "$glbnet$sys2x": {"achieved": memory, "constraint": 80.0},
            },
            "utilization": {"DP16KD": {"used": 5, "available": 208}, "MULT18X18D": {"used": 0, "available": 156}},
            "critical_paths": [
                {"from": "<async>", "to": "posedge $glbnet$user_clk", "path": []},
                path("sys2x", 1.0, 2.0),
                path("user_clk", 3.0, 4.5),
            ],
        }
    )


@pytest.mark.parametrize(
    ("reached", "met", "slowest"),
    [((40.0, 80.0), True, None), ((39.9, 100.0), False, "user_clk"), ((39.9, 60.0), False, "sys2x")],
)
def test_timing_is_met_by_every_clock_or_not_at_all(reached, met, slowest):
    report = _report(*reached)
    assert report.met is met
    assert report.used == {"DP16KD": [5, 208]}
    assert f"user_clk {reached[0]:.1f} of 40.0 MHz" in str(report)
    if slowest:
        first, *parts = report.worst_path().splitlines()
        assert first == f"worst path of {slowest}:"
        assert len(parts) == 2
        assert parts[-1].split()[0] == ("7.50" if slowest == "user_clk" else "3.00")
        assert f"{slowest}_1 -> {slowest}_2" in parts[-1]


def test_a_path_between_clocks_that_the_board_does_not_list_fails_the_build():
    routed = RouteReport(json.loads(TWO_CLOCKS.read_text()))
    (clocks,) = routed.crossings  # paths from and to pins are none, nor are those of one clock
    assert clocks == "a_clk$TRELLIS_IO_IN -> b_clk$TRELLIS_IO_IN"
    assert routed.crossings[clocks].startswith("count_TRELLIS_FF_Q")
    told = io.StringIO()
    board = build_of("ulx3s")
    message = r"board ulx3s has .* does not list: a_clk\S* -> b_clk\S*, the longest: count"
    with pytest.raises(CrossingError, match=message):
        board.check_crossings(routed, Steps(told))
    for listed in (("c -> d", clocks), None):
        dataclasses.replace(board, crossings=listed).check_crossings(routed, Steps(told))
    assert told.getvalue().count(f"paths between clocks: {clocks}, the longest: count") == 3
