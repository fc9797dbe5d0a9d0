"""Where the arrays of a call lie."""

from __future__ import annotations

from muntin.host.native import _core


class PooledArrays:
    """What NumPy allocates in this thread meanwhile lies in the core's pool: a call touches no memory for the first
    time that the one before it has given back. An array may outlive this; nested in another, it changes nothing."""

    __slots__ = ("_outside",)

    def __enter__(self) -> None:
        self._outside = _core.numpy_memory()

    def __exit__(self, *_: object) -> None:
        _core.numpy_memory(self._outside)
