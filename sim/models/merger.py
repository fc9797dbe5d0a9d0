"""Model of the merger."""

from __future__ import annotations

import numpy as np


def merge(
    older: tuple[np.ndarray, np.ndarray], newer: tuple[np.ndarray, np.ndarray], width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Merges two sorted runs as the hardware does, the order of equal keys included.

    Parameters
    ----------
    older, newer : tuple of ndarray
        Keys, unsigned and ascending, shape (n,), and row numbers, uint32, shape (n,).
    width : int
        W, the rows of a beat.

    Returns
    -------
    tuple of ndarray
        Keys and row numbers of the merged run.
    """
    sides = []
    for keys, rows in (older, newer):
        # A lane that runs dry offers padding, which is after every key.
        pad = np.zeros(len(keys) + 2 * width, bool)
        pad[len(keys) :] = True
        sides.append(
            (
                np.append(keys, np.zeros(2 * width, keys.dtype)),
                np.append(rows, np.zeros(2 * width, rows.dtype)),
                pad,
            )
        )
    (a_keys, a_rows, a_pad), (b_keys, b_rows, b_pad) = sides
    total = len(older[0]) + len(newer[0])
    keys_out, rows_out = [], []
    lanes = np.arange(width)
    a_at = b_at = 0
    while a_at + b_at < total:
        # Lane i of the older side holds the row whose number is i modulo W, lane W-1-i of the newer side
        # likewise.
        a = a_at + (lanes - a_at) % width
        b = b_at + (width - 1 - lanes - b_at) % width
        take = b_pad[b] | (~a_pad[a] & ~(b_keys[b] < a_keys[a]))
        keys = np.where(take, a_keys[a], b_keys[b])
        rows = np.where(take, a_rows[a], b_rows[b])
        pad = np.where(take, a_pad[a], b_pad[b])
        a_at += int(take.sum())
        b_at += width - int(take.sum())
        reach = width // 2
        while reach:
            low = lanes[(lanes & reach) == 0]
            high = low + reach
            swap = ~pad[high] & (pad[low] | (keys[high] < keys[low]))
            for array in (keys, rows, pad):
                array[low], array[high] = (
                    np.where(swap, array[high], array[low]),
                    np.where(swap, array[low], array[high]),
                )
            reach //= 2
        keys_out.append(keys[~pad])
        rows_out.append(rows[~pad])
    if not keys_out:
        return older[0][:0], older[1][:0]
    return np.concatenate(keys_out), np.concatenate(rows_out)
