"""Keys below bounds."""

import numpy as np


def count_below(keys: np.ndarray, below: np.ndarray) -> np.ndarray:
    """How many keys lie below each bound.

    Parameters
    ----------
    keys : ndarray of unsigned integers, shape (n,)
        Ascending.
    below : ndarray of object, shape (m,)
        Bounds as Python integers, from 0 to one above the greatest key there is.

    Returns
    -------
    ndarray of int64, shape (m,)
    """
    above_all = np.array([bound > np.iinfo(keys.dtype).max for bound in below], bool)
    within = np.where(above_all, 0, below).astype(keys.dtype)
    return np.where(above_all, len(keys), np.searchsorted(keys, within, "left")).astype(np.int64)
