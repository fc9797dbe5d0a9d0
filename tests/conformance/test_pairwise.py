"""The sampler covers what it says."""

import itertools

from tests.conformance.pairwise import pairwise


def test_every_pair_of_values_occurs():
    axes = {"a": list(range(7)), "b": list("xyz"), "c": [True, False], "d": list(range(5))}
    sample = pairwise(axes, seed=1)
    for one, other in itertools.combinations(axes, 2):
        met = {(case[one], case[other]) for case in sample}
        assert met == set(itertools.product(axes[one], axes[other]))
    assert len(sample) < 7 * 5 * 2
    assert sample == pairwise(axes, seed=1)
