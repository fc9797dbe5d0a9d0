"""Aggregates by their text and by their JSON, and the types of what they give."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from muntin.host.aggregates.aggregate import Aggregate, Kinds
from muntin.host.aggregates.functions import Count, Extreme, Max, Mean, Min, Quantile, StdDev, Sum, Var
from muntin.host.aggregates.of_rows import ArgMax, ArgMin, Collect, First, Last, OfExtreme
from muntin.host.errors import KeyTypeError, PredicateError
from muntin.host.predicates import from_dict

#: The functions: of texts and of what `Aggregate.to_dict` gives.
_KINDS: dict[str, type[Aggregate]] = {
    "count": Count, "sum": Sum, "min": Min, "max": Max, "avg": Mean, "mean": Mean, "weighted_avg": Mean, "vwap": Mean,
    "var_samp": Var, "variance": Var, "var": Var, "stddev_samp": StdDev, "stddev": StdDev, "first": First,
    "last": Last, "arg_min": ArgMin, "min_by": ArgMin, "arg_max": ArgMax, "max_by": ArgMax, "percentile": Quantile,
    "quantile": Quantile, "collect_list": Collect, "collect": Collect,
}  # fmt: skip


_TEXT = re.compile(
    r"\s*(\w+)\s*\(\s*([^()]*?)\s*\)\s*(?:filter\s*\(\s*where\s+(.*?)\)\s*)?"
    r"(?:within\s*\(([^(),]*),([^(),]*)\)\s*)?((?<=[\s)])include\s+prevailing\b\s*)?(?:(?<=[\s)])as\s+(\S+)\s*)?",
    re.IGNORECASE | re.DOTALL,
)


_NUMBER = re.compile(r"-?[0-9.]*[0-9]")


def aggregate_from_dict(data: dict[str, Any]) -> Aggregate:
    """What `Aggregate.to_dict` gave. Raises KeyError, TypeError for anything else."""
    more = dict(data)
    kind = _KINDS[more.pop("function")]
    if isinstance(more.get("filter"), dict):
        more["filter"] = from_dict(more["filter"])
    return kind(**more)


def open_aggregates(given: Any) -> tuple[Aggregate, ...]:
    """Aggregates, or their text such as ``"sum(price)"``, ``"count(*)"``, ``"avg(price) as mean"``, ``"arg_max(venue,
    price)"`` or ``"sum(size) filter (where venue = 'X')"``.

    Raises
    ------
    PredicateError
        If one is neither.
    """
    if isinstance(given, (str, Aggregate)) or not isinstance(given, Iterable):
        given = (given,)
    return tuple(each if isinstance(each, Aggregate) else _parsed(each) for each in given)


def _arguments(function: str, kind: type[Aggregate]) -> list[str]:
    """What the text of a function has in its brackets."""
    weighed = function in ("weighted_avg", "vwap")
    return [what for what in (*kind.paths, *kind._more) if what != "weight" or weighed]


def _parsed(text: Any) -> Aggregate:
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    function = found[1].lower() if found else ""
    kind = _KINDS.get("quantile" if function == "median" else function)
    if found is not None and kind is not None:
        given = [each.strip() for each in found[2].split(",")]
        if kind is Count and given[0] in ("", "*", "1"):
            given = []
        elif function == "median":
            given.append("0.5")
        names = _arguments(function, kind)
        whole = len(given) == len(names) or (kind is Count and not given)
        if whole and all(
            each not in ("", "*", "1") or what in kind._more for each, what in zip(given, names, strict=False)
        ):
            options: dict[str, Any] = dict(zip(names, given, strict=False))
            if all(_NUMBER.fullmatch(options[what]) for what in kind._more):
                options |= {what: float(options[what]) for what in kind._more}
                within = None if found[4] is None else tuple(_end(each) for each in found.groups()[3:5])
                options |= {"within": within, "prevailing": found[6] is not None}
                return kind(**options, filter=found[3] and found[3].strip(), name=found[7])
    raise PredicateError(
        f"{text!r} is no aggregate: use count(*), count(column), {', '.join(_forms())}; behind it 'filter (where "
        "condition)' for some rows alone, 'within (low, high)' for a window of its own, 'include prevailing' for the "
        "row before it too, 'as name' where it is to have another name"
    )


def _end(text: str) -> Any:
    """An end of a window, by its text."""
    text = text.strip().strip("'")
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text or None


def _forms() -> list[str]:
    """A text of each function, without other names for the same."""
    told: dict[tuple[Any, ...], str] = {}
    for function, kind in _KINDS.items():
        arguments = _arguments(function, kind)
        told.setdefault((kind, *arguments), f"{function}({', '.join(arguments)})")
    return [*list(told.values())[1:], "median(column)"]


def result_type(aggregate: Aggregate, kinds: Kinds) -> pa.DataType:
    """The type of an aggregate of columns of these types.

    Raises
    ------
    KeyTypeError
        If there is none.
    """
    kind = aggregate._type(kinds)
    if kind is None:
        told = " and ".join(f"column {path!r} of type {kinds[path]}" for path in aggregate.columns)
        raise KeyTypeError(
            f"there is no {aggregate.function} of {told}: use integers, floats, decimals of at most 38 digits"
            + (", dates or timestamps" if isinstance(aggregate, (Extreme, OfExtreme)) else "")
        )
    if isinstance(aggregate, Mean):
        aggregate._check(kinds)
    return kind
