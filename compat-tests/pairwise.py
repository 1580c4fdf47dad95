"""Matrices of tests, covered pairwise: the quick run meets each value of a factor together with
each value of every other factor, and `--all` runs the whole matrix. It imports no other module of
the tests.
"""

import itertools

import pytest


def pairs(combination):
    """Of one value for each factor: all two of them, with their places."""
    return set(itertools.combinations(enumerate(combination), 2))


def cover(combinations):
    """Those of the combinations that together have all pairs of values that any of them has: always
    the one with the most pairs that are still missing, the first one of several."""
    missing = set().union(*map(pairs, combinations))
    chosen = []
    while missing:
        best = max(combinations, key=lambda combination: len(pairs(combination) & missing))
        missing -= pairs(best)
        chosen.append(best)
    return chosen


def params(combinations, label=None):
    """Parameters for `pytest.mark.parametrize`: what the cover does not need has the mark `full`.
    label: the name of a combination."""
    combinations = list(combinations)
    quick = set(cover(combinations))
    return [pytest.param(*combination, id=label(combination) if label else None,
                         marks=[] if combination in quick else [pytest.mark.full])
            for combination in combinations]
