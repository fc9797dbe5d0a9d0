"""Muntin: exact sliding-window joins of two streams. The names in `__all__` are the public interface.

Spark's entry point is `muntin.spark.window_join`; Spark is not needed for anything here.
"""

from importlib.metadata import version

import lazy_loader

# Names are loaded when they are first used: what runs a simulation or a Spark task does not load a whole join.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = version("muntin")
