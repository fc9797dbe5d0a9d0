"""Muntin: exact sliding-window joins of two streams. The names in `__all__` are the public interface.

Spark's entry point is `muntin.spark.window_join`; Spark is not needed for anything here.
"""

from typing import Any

import lazy_loader

# Names are loaded when they are first used: what runs a simulation or a Spark task does not load a whole join.
_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("muntin")
    return _loaded(name)
