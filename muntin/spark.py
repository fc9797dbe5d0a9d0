"""Window joins of Spark DataFrames. Needs ``pip install 'muntin[spark]'`` and Java 17 or newer.

A file of its own, so that ``import muntin`` works without Spark.
"""

from muntin.pyspark_bridge.java_runtime import JavaNotFoundError, ensure_java
from muntin.pyspark_bridge.listener import BatchProgress, JoinListener, JoinProgress, listen
from muntin.pyspark_bridge.window_join import window_join
from muntin.pyspark_bridge.worker_python import WorkerPythonError

__all__ = [
    "BatchProgress",
    "JavaNotFoundError",
    "JoinListener",
    "JoinProgress",
    "WorkerPythonError",
    "ensure_java",
    "listen",
    "window_join",
]
