"""The quick run's part of a matrix (pairwise.py) leaves out no pair of values."""

import itertools

import pairwise


def test_each_pair_is_there_and_few_combinations_are():
    combinations = list(itertools.product("ab", "cd", "efghi", (False, True)))
    quick = pairwise.cover(combinations)
    assert set().union(*map(pairwise.pairs, quick)) == set().union(
        *map(pairwise.pairs, combinations))
    # Two factors of 5 and 2 values have 10 pairs, so no fewer would do.
    assert 10 <= len(quick) <= 12, quick


def test_what_does_not_exist_is_not_asked_for():
    combinations = [(a, b) for a in range(3) for b in range(3) if a != b]
    assert sorted(pairwise.cover(combinations)) == combinations


def test_the_rest_is_marked():
    params = pairwise.params(itertools.product((0, 1), repeat=3), label=str)
    marked = [param.id for param in params if [mark.name for mark in param.marks] == ["full"]]
    assert len(params) == 8 and marked == ["(0, 0, 1)", "(0, 1, 0)", "(1, 0, 0)", "(1, 1, 1)"], (
        marked)
