"""The naive order component matches its definition for all permutations of up to 7 packets."""

import itertools

import pytest
from acapella_testing.oracles import naive_kappa


def subsequences(ranks: tuple) -> list[tuple]:
    """Return all increasing subsequences, as tuples of (rank in A, rank in B)."""
    pairs = [(a, b) for b, a in enumerate(ranks)]
    every = (chosen for size in range(len(ranks) + 1) for chosen in itertools.combinations(pairs, size))
    return [chosen for chosen in every if all(x < y for (x, _), (y, _) in itertools.pairwise(chosen))]


def by_definition(ranks: tuple) -> tuple:
    """Return the kept subsequence: the longest, then largest sum |a - b|, then smallest ranks in A."""
    return min(subsequences(ranks), key=lambda s: (-len(s), -sum(abs(a - b) for a, b in s), [a for a, _ in s]))


def inverse(ranks: tuple) -> tuple:
    return tuple(ranks.index(b) for b in range(len(ranks)))


@pytest.mark.parametrize("size", range(8))
def test_permutations_have_the_defined_moves(size):
    for ranks in itertools.permutations(range(size)):
        assert {b for _, b in by_definition(ranks)} == naive_kappa.kept(list(ranks))


@pytest.mark.parametrize("size", range(8))
def test_moved_distance_and_inversions_are_symmetric(size):
    for ranks in itertools.permutations(range(size)):
        there, back = (naive_kappa.moved(list(way)) for way in (ranks, inverse(ranks)))
        assert len(there) == len(back)
        assert sum(abs(a - b) for a, b in there) == sum(abs(a - b) for a, b in back)
        assert naive_kappa.inversions(list(ranks)) == naive_kappa.inversions(list(inverse(ranks)))


def test_move_table_depends_on_the_order_of_the_pair():
    assert any(
        sorted(a - b for a, b in naive_kappa.moved(list(ranks)))
        != sorted(b - a for a, b in naive_kappa.moved(list(inverse(ranks))))
        for ranks in itertools.permutations(range(4))
    )
