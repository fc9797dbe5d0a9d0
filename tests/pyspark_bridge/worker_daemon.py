"""The parent of Spark's Python workers in tests: it has what they import.

Spark starts a worker anew for each task that has failed. Two seconds of each go into imports, unless the process that
it is forked from has them.
"""

import pandas  # noqa: F401
from pyspark.daemon import *  # noqa: F403 - Spark runs this module in the place of that one
from pyspark.daemon import manager

import muntin.pyspark_bridge.join_task  # noqa: F401

if __name__ == "__main__":
    manager()
