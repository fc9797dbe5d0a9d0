"""Window joins of Spark DataFrames. Needs ``pip install 'mullion[spark]'`` and Java 17 or newer.

A file of its own, so that ``import mullion`` works without Spark.
"""

from pyspark_bridge.java_runtime import JavaNotFoundError, ensure_java
from pyspark_bridge.window_join import window_join
from pyspark_bridge.worker_python import WorkerPythonError

__all__ = ["JavaNotFoundError", "WorkerPythonError", "ensure_java", "window_join"]
