"""What is made of nextpnr's report: the clocks that are too slow, and the worst path of the slowest."""

import pytest

from muntin.hw.boards.route_report import RouteReport


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
