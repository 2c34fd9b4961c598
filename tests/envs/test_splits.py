"""Seeded, disjoint 80/20 splits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.envs.family import check_seed, split_tasks, validation_split
from idaq.errors import IdaqError

sizes, seeds = st.integers(5, 200), st.integers(0, 10_000)


@given(sizes, seeds)
def test_split_is_disjoint_sorted_and_complete(num_tasks: int, seed: int) -> None:
    split = split_tasks(num_tasks, seed)
    assert sorted([*split.train, *split.test]) == list(range(num_tasks))
    assert len(split.train) == round(0.8 * num_tasks)
    for part in split:
        assert list(part) == sorted(part)


@given(sizes, seeds)
def test_validation_never_touches_test_tasks(num_tasks: int, seed: int) -> None:
    outer, inner = split_tasks(num_tasks, seed), validation_split(num_tasks, seed)
    both = [*inner.train, *inner.test]
    assert not set(both) & set(outer.test)
    assert sorted(both) == list(outer.train)
    assert len(inner.train) == round(0.8 * len(outer.train))
    for part in inner:
        assert list(part) == sorted(part)


@pytest.mark.parametrize("split", [split_tasks, validation_split])
def test_split_is_its_seeds(split: object) -> None:
    assert callable(split)
    first, again = split(100, 3), split(100, 3)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    others = {tuple(split(100, seed).test) for seed in range(20)}
    assert len(others) == 20


def test_every_task_is_held_out_by_some_seed() -> None:
    held_out = np.concatenate([split_tasks(100, seed).test for seed in range(60)])
    counts = np.bincount(held_out, minlength=100)
    assert len(held_out) == 60 * 20
    assert counts.min() >= 2  # of 12 expected
    assert counts.max() <= 26


def test_negative_seed_is_refused() -> None:
    check_seed(0)
    with pytest.raises(IdaqError, match="Seed -1"):
        check_seed(-1)
