"""Predicates of the contract, in ticks of the keys under test."""

from muntin import AnyOf, Band, Compare
from tests.conformance.keys import KeyCase

PREDICATES = {
    "band-asymmetric": ("band", -3, 5),
    "band-one-sided": ("band", 2, 9),
    "band-open-low": ("band", None, -4),
    "band-open-high": ("band", 6, None),
    "band-open": ("band", None, None),
    "band-zero": ("band", 0, 0),
    "band-zero-shifted": ("band", 3, 3),
    "band-wide": ("band", -1000, 1000),
    "band-left": ("band", -3, 5, "left"),
    "band-neither": ("band", -3, 0, "neither"),
    "compare-equal": ("compare", "="),
    "compare-equal-2": ("compare", "=="),
    "compare-less": ("compare", "<"),
    "compare-less-equal": ("compare", "<="),
    "compare-greater": ("compare", ">"),
    "compare-greater-equal": ("compare", ">="),
    "compare-not-equal": ("compare", "!="),
    "compare-not-equal-2": ("compare", "<>"),
    "any-disjoint": ("any", [("band", -9, -5), ("band", 4, 7)]),
    "any-overlapping": ("any", [("band", -5, 2), ("band", 0, 6), ("band", -1, 1)]),
    "any-touching": ("any", [("band", -5, 0), ("band", 0, 4), ("band", 5, 6)]),
    "any-nested": ("any", [("band", None, 3), ("band", -2, 1)]),
    "any-closed": ("any", [("band", -5, 0, "left"), ("band", 0, 4, "right"), ("band", 5, 9, "neither")]),
    "any-compare": ("any", [("compare", "<"), ("band", -4, -2), ("compare", "=")]),
    "any-not-equal": ("any", [("compare", "!="), ("band", -1, 1)]),
    "any-everything": ("any", [("compare", "<="), ("compare", ">")]),
}


def in_units(predicate: tuple, key: KeyCase) -> tuple:
    """The predicate with its bounds in units of the key, as the oracle takes it."""
    if predicate[0] == "band":
        return ("band", key.bound(predicate[1]), key.bound(predicate[2]), *predicate[3:])
    if predicate[0] == "any":
        return ("any", [in_units(each, key) for each in predicate[1]])
    return predicate


def for_host(predicate: tuple, left: str, right: str) -> object:
    """The predicate as the operator takes it."""
    if predicate[0] == "band":
        closed = dict(zip(("closed",), predicate[3:], strict=False))
        return Band(left, right, low=predicate[1], high=predicate[2], **closed)
    if predicate[0] == "sum":
        return Band(left, right, low=predicate[1], high=predicate[2], sum=True)
    if predicate[0] == "compare":
        return Compare(left, predicate[1], right)
    return AnyOf(*(for_host(each, left, right) for each in predicate[1]))
