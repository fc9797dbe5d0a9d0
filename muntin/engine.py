"""How a join runs, to compare or to choose: ``WindowJoin(..., engine=SplitJoin(cores=8))``; and orders of its result at
an interval."""

from muntin.host.engines import (
    EngineKind,
    Inner,
    Outer,
    Shared,
    SplitJoin,
    Steps,
)

__all__ = [
    "EngineKind",
    "Inner",
    "Outer",
    "Shared",
    "SplitJoin",
    "Steps",
]
