"""Model of the RAP merger."""

from __future__ import annotations

from muntin.sim.models.join_settings import JoinResult


def merge_punctuated(inputs: list[list[JoinResult]]) -> list[JoinResult]:
    """Results of several inputs with the same punctuation as one, each input's pairs before the next one's.

    Without order, pairs between two punctuations may come out in any order that keeps each input's own.

    Raises
    ------
    ValueError
        If the punctuations differ.
    """
    merged = []
    at = [0] * len(inputs)
    while True:
        for number, results in enumerate(inputs):
            while at[number] < len(results) and results[at[number]].row is not None:
                merged.append(results[at[number]])
                at[number] += 1
        stars = {results[place] if place < len(results) else None for results, place in zip(inputs, at, strict=True)}
        if len(stars) > 1:
            raise ValueError(f"inputs must have the same punctuation, not {stars}")
        star = stars.pop()
        if star is None:
            return merged
        merged.append(star)
        at = [place + 1 for place in at]
