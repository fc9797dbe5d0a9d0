"""The native core, in C++: `host.native._core`."""

from host.native._core import isa, set_threads

__all__ = ["isa", "set_threads"]
