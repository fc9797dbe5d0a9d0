"""Model of the boundary generator."""

import numpy as np


def bounds(keys: np.ndarray, offset: int) -> np.ndarray:
    """``key + offset``, saturated to 0 and to one above the greatest key there is.

    Parameters
    ----------
    keys : ndarray of unsigned integers, shape (n,)
    offset : int

    Returns
    -------
    ndarray of object, shape (n,)
        Python integers, as the greatest bound is one bit wider than a key.
    """
    top = int(np.iinfo(keys.dtype).max) + 1
    return np.array([min(max(int(key) + offset, 0), top) for key in keys], object)
