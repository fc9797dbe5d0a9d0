"""When a route is given up."""

import pytest

from hw.boards.route_watch import PATIENCE, given_up


def log(*overused: int) -> str:
    lines = ["Info: Running main router loop..."]
    lines += [
        f"Info:     iter={at} wires={700000 + at} overused={wires} overuse={wires + 1} archfail=NA"
        for at, wires in enumerate(overused, 1)
    ]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(
    "overused",
    [
        (),
        (900, 500, 100, 20, 3, 0),
        range(1000, 0, -1),  # slowly, but on and on
        (900, 200, *[250] * (PATIENCE - 1)),
        (900, 200, *[250] * (PATIENCE - 1), 199, *[250] * (PATIENCE - 1)),
    ],
)
def test_a_route_that_gets_on_is_left_alone(overused):
    assert given_up(log(*overused)) is None


def test_a_route_that_stands_still_is_given_up():
    reason = given_up(log(900, 300, 200, *[250] * PATIENCE))
    assert reason == f"200 wires in conflict after iteration 3, and never fewer up to iteration {PATIENCE + 3}"


def test_other_lines_do_not_count():
    assert given_up("Info:   at iteration #1: temp = 0.000000\nInfo: Program finished normally.\n") is None
