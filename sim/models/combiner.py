"""Model of the combiner."""

from __future__ import annotations

from sim.models.join_settings import JoinResult


def combine(left: list[JoinResult], right: list[JoinResult]) -> list[tuple[int, JoinResult]]:
    """Both sides' results in turn, each with its side, when all are here from the start."""
    made = []
    sides = [list(left), list(right)]
    turn = 0
    while any(sides):
        side = turn if sides[turn] else 1 - turn
        made.append((side, sides[side].pop(0)))
        turn = 1 - side
    return made
