"""The public names, by the module that each is loaded from when it is first used."""

from . import engine, errors, hardware, index
from .host.aggregates import (
    Aggregate,
    ArgMax,
    ArgMin,
    Collect,
    Count,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    StdDev,
    Sum,
    Var,
)
from .host.engines import Partitions
from .host.join import WindowJoin
from .host.join.stats import Stats
from .host.native import set_threads
from .host.predicates import AllOf, AnyOf, AsOf, Band, Compare, Where
from .host.spec import JoinSpec
from .host.tracing import start_tracing
from .host.windows import Rows, Watermark, Within
from .query import join, sql, sql_explain, sql_spec

__version__: str

__all__ = [
    "Aggregate",
    "AllOf",
    "AnyOf",
    "ArgMax",
    "ArgMin",
    "AsOf",
    "Band",
    "Collect",
    "Compare",
    "Count",
    "First",
    "JoinSpec",
    "Last",
    "Max",
    "Mean",
    "Min",
    "Partitions",
    "Quantile",
    "Rows",
    "Stats",
    "StdDev",
    "Sum",
    "Var",
    "Watermark",
    "Where",
    "WindowJoin",
    "Within",
    "engine",
    "errors",
    "hardware",
    "index",
    "join",
    "set_threads",
    "sql",
    "sql_explain",
    "sql_spec",
    "start_tracing",
]
