"""When a route is given up."""

import pytest

from muntin.hw.boards.route_report import PATIENCE, given_up


def router2(*overused: int) -> str:
    lines = ["Info: Running main router loop..."]
    lines += [
        f"Info:     iter={at} wires={700000 + at} overused={wires} overuse={wires + 1} archfail=NA"
        for at, wires in enumerate(overused, 1)
    ]
    return "\n".join([*lines, ""])


def router1(*remaining: int) -> str:
    lines = ["Info:            |   (re-)routed arcs  |   delta    | remaining|       time spent     |"]
    lines += [
        f"Info:     {1000 * at:6} | {100 * at:8} {900 * at:10} |  202   798 | {nets:9}|       1.22      61.88|"
        for at, nets in enumerate(remaining, 1)
    ]
    return "\n".join([*lines, ""])


ROUTERS = pytest.mark.parametrize(
    ("log", "patience", "what"),
    [(router1, PATIENCE["router1"], "unrouted nets"), (router2, PATIENCE["router2"], "overused wires")],
    ids=["router1", "router2"],
)


@ROUTERS
def test_a_route_that_makes_progress_is_left_alone(log, patience, what):
    for left in (
        (),
        (900, 500, 100, 20, 3, 0),
        range(1000, 0, -1),  # slowly, but on and on
        (900, 200, *[250] * (patience - 1)),
        (900, 200, *[250] * (patience - 1), 199, *[250] * (patience - 1)),
        (900, 0, *[0] * patience),
    ):
        assert given_up(log(*left)) is None, left


@ROUTERS
def test_a_route_without_progress_is_given_up(log, patience, what):
    reason = given_up(log(900, 300, 200, *[250] * patience))
    assert reason == f"200 {what} in line 3 of the router's log, and never fewer up to line {patience + 3}"


def test_other_lines_do_not_count():
    assert given_up("Info:   at iteration #1: temp = 0.000000\nInfo: Program finished normally.\n") is None
