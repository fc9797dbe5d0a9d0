"""The position of a bound."""

from amaranth.hdl import ShapeLike
from amaranth.lib import data


def position_layout(position: ShapeLike) -> data.StructLayout:
    """The layout of a bound's position in a run.

    Returns
    -------
    StructLayout
        ``position``, the number of keys below the bound, of the shape that is given; ``upper`` and ``last`` as in its `bound_layout`.
    """
    return data.StructLayout({"position": position, "upper": 1, "last": 1})
