"""The native core, in C++: `muntin.host.native._core`."""

from muntin.host.native import _core
from muntin.host.native._core import isa
from muntin.host.public import public

__all__ = ["isa", "set_threads"]


@public("muntin")
def set_threads(threads: int) -> None:
    """Has calls of joins that come use so many threads of this process's pool.

    Examples
    --------
    >>> import os
    >>> from muntin import set_threads
    >>> set_threads(os.cpu_count() or 1)
    """
    _core.set_threads(threads)
