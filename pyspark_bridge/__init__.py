"""Window joins of Spark DataFrames, streaming or batch, computed by a Muntin daemon."""

from muntin.pyspark_bridge.java_runtime import JavaNotFoundError, ensure_java
from muntin.pyspark_bridge.window_join import window_join

__all__ = ["JavaNotFoundError", "ensure_java", "window_join"]
