"""The native core, in C++: `muntin.host.native._core`."""

from muntin.host.native._core import isa, set_threads

__all__ = ["isa", "set_threads"]
