"""What defines a join, as data, and what it makes of columns."""

from muntin.host.spec.fields import FORMS, HOWS, MOMENTS
from muntin.host.spec.join_spec import COUNTS_SCHEMA, PAIRS_SCHEMA, RANGES_SCHEMA, JoinSpec, OutputColumn

__all__ = ["COUNTS_SCHEMA", "FORMS", "HOWS", "MOMENTS", "PAIRS_SCHEMA", "RANGES_SCHEMA", "JoinSpec", "OutputColumn"]
