"""A small pairwise sampler: every pair of values of every two axes occurs in some combination."""

import itertools
import random


def pairwise(axes: dict[str, list], seed: int) -> list[dict]:
    """Combinations of one value per axis that together cover all pairs of values, greedily few of them.

    Parameters
    ----------
    axes
        The values of each axis; order matters only for which combinations come out.
    seed
        Same seed, same combinations.
    """
    rng = random.Random(seed)
    names = list(axes)
    missing = {
        (a, b, i, j)
        for a, b in itertools.combinations(range(len(names)), 2)
        for i in range(len(axes[names[a]]))
        for j in range(len(axes[names[b]]))
    }
    # Start each combination from a pair that is still missing: then every round removes at least one.
    order = sorted(missing)
    rng.shuffle(order)
    result = []
    for seed_pair in order:
        if seed_pair not in missing:
            continue
        chosen = {seed_pair[0]: seed_pair[2], seed_pair[1]: seed_pair[3]}
        rest = [axis for axis in range(len(names)) if axis not in chosen]
        rng.shuffle(rest)
        for axis in rest:
            values = list(range(len(axes[names[axis]])))
            rng.shuffle(values)
            chosen[axis] = max(values, key=lambda value: _gain(axis, value, chosen, missing))
        missing -= {(a, b, chosen[a], chosen[b]) for a, b in itertools.combinations(range(len(names)), 2)}
        result.append({name: axes[name][chosen[axis]] for axis, name in enumerate(names)})
    return result


def _gain(axis: int, value: int, chosen: dict[int, int], missing: set) -> int:
    """How many missing pairs one more value covers."""
    return sum(
        ((other, axis, at, value) if other < axis else (axis, other, value, at)) in missing
        for other, at in chosen.items()
    )
