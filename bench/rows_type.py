"""A number of rows, read from the command line and shown."""

from __future__ import annotations

import click


class RowsType(click.ParamType):
    """A number of rows such as 4096, 32K or 8M (binary units)."""

    name = "rows"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the number, or fails with what was wrong."""
        if isinstance(value, int):
            return value
        factor = {"K": 1 << 10, "M": 1 << 20}.get(value[-1:].upper(), 1)
        digits = value[:-1] if factor > 1 else value
        if not digits.isdigit() or int(digits) == 0:
            self.fail(f"{value!r} is not a number of rows such as 4096, 32K or 8M", param, ctx)
        return int(digits) * factor


ROWS = RowsType()


def size(rows: int) -> str:
    """``8M`` for 8 * 2**20 and the like."""
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if rows >= unit and rows % unit == 0:
            return f"{rows // unit}{letter}"
    return f"{rows:,}"
