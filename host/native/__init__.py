"""The native core, in C++: `muntin.host.native._core`."""

import dataclasses
import operator

from muntin.host.errors import DeviceError
from muntin.host.native import _core
from muntin.host.native._core import isa
from muntin.host.public import public

__all__ = ["INDEXES", "CoreIndex", "isa", "set_threads"]


@dataclasses.dataclass(frozen=True)
class CoreIndex:
    """An index of the core: which engines have it, and what it can do.

    Attributes
    ----------
    name : str
    engines : tuple of str
        That have it in this build, by the names of `muntin.host.engines`.
    key_bits : tuple of int
        Widths of keys that it has under the engine of steps.
    ranges : bool
        Results may be ranges of its runs.
    slice : bool
        A slice of a window may be one.
    ordered : bool
        It is searched by ranges of keys, row by row.
    built : bool
        It is in this build.
    """

    name: str
    engines: tuple[str, ...]
    key_bits: tuple[int, ...]
    ranges: bool
    slice: bool
    ordered: bool
    built: bool


INDEXES = {index["name"]: CoreIndex(**index) for index in _core.indexes()}
"""The core's indexes by name, from its own table. The first one that an engine has is its default."""


_MOST_THREADS = 1024


@public("muntin")
def set_threads(threads: int) -> None:
    """Has calls of joins that come use so many threads of this process's pool.

    Examples
    --------
    >>> import os
    >>> from muntin import set_threads
    >>> set_threads(os.cpu_count() or 1)

    Raises
    ------
    DeviceError
        If `threads` is no whole number from 1 to 1,024.
    """
    try:
        count = 0 if isinstance(threads, bool) else operator.index(threads)
    except TypeError:
        count = 0
    if not 1 <= count <= _MOST_THREADS:
        raise DeviceError(f"threads must be a whole number from 1 to {_MOST_THREADS:,}, not {threads!r}")
    _core.set_threads(count)
