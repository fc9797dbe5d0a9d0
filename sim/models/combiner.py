"""Model of the combiner."""

from __future__ import annotations

from muntin.sim.models.join_settings import JoinResult


def combine_ordered(left: list[JoinResult], right: list[JoinResult], sides: list[int]) -> list[tuple[int, JoinResult]]:
    """Both sides' results, each with its side, in order of arrival.

    Parameters
    ----------
    left, right : list of JoinResult
        With a punctuation behind each probing row.
    sides : list of int
        The stream of each row that arrived.
    """
    made = []
    inputs = iter(left), iter(right)
    for side in sides:
        for result in inputs[side]:
            made.append((side, result))
            if result.last:
                break
    return made


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
