"""Window joins of Spark DataFrames, streaming or batch, computed by a Mullion daemon."""

from pyspark_bridge.java_runtime import JavaNotFoundError, ensure_java
from pyspark_bridge.window_join import window_join

__all__ = ["JavaNotFoundError", "ensure_java", "window_join"]
