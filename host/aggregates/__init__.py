"""Aggregates of the rows that a row matches: what ``form="aggregate"`` gives."""

from muntin.host.aggregates.aggregate import Aggregate, Kinds
from muntin.host.aggregates.functions import Count, Max, Mean, Min, Quantile, StdDev, Sum, Var
from muntin.host.aggregates.of_rows import ArgMax, ArgMin, Collect, First, Last, OfRow
from muntin.host.aggregates.text import aggregate_from_dict, open_aggregates, result_type

__all__ = [
    "Aggregate", "ArgMax", "ArgMin", "Collect", "Count", "First", "Kinds", "Last", "Max", "Mean", "Min", "OfRow",
    "Quantile", "StdDev", "Sum", "Var", "aggregate_from_dict", "open_aggregates", "result_type",
]  # fmt: skip
