"""The parent of Spark's Python workers in tests: it has what they import.

After a failed task Spark starts a new worker, whose imports take two seconds, unless the process that it is forked from
has them.
"""

import pandas  # noqa: F401
from pyspark.daemon import *  # noqa: F403 - Spark runs this module in the place of that one
from pyspark.daemon import manager

import muntin.pyspark_bridge.join_task  # noqa: F401

if __name__ == "__main__":
    manager()
