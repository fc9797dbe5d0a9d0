"""Model of the indexer."""

import numpy as np


def index(keys: np.ndarray, partition_log2: int) -> np.ndarray:
    """The first key of each partition of ``2**partition_log2`` rows of a run."""
    return keys[:: 1 << partition_log2]
