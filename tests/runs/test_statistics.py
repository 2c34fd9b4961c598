"""Scores and intervals against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.runs.statistics import (
    bootstrap_interval,
    bootstrap_intervals,
    capped_score,
    normalised_score,
    per_seed_mean,
)
from tests import oracles

RETURNS = np.array([[900.0, 2100.0, 600.0], [1500.0, 1200.0, 300.0], [100.0, 200.0, 3000.0]])
REFERENCE = 1100.0
SCORES = np.random.default_rng(3).normal(size=9)

tables = st.lists(st.lists(st.floats(-1e4, 1e4), min_size=4, max_size=4), min_size=1, max_size=6)


@given(tables, st.floats(1.0, 1e4))
def test_score(rows: list[list[float]], reference: float) -> None:
    returns = np.asarray(rows)
    expected = oracles.scores(returns, reference)
    np.testing.assert_allclose(normalised_score(returns, reference), expected, rtol=1e-9, atol=1e-9)
    capped = oracles.scores(returns, reference, cap=1.0)
    np.testing.assert_allclose(capped_score(returns, reference), capped, rtol=1e-9, atol=1e-9)


def test_score_fails_under_a_mutated_constant() -> None:
    actual, capped = normalised_score(RETURNS, REFERENCE), capped_score(RETURNS, REFERENCE)
    assert oracles.agree(actual, oracles.scores(RETURNS, REFERENCE))
    assert not oracles.agree(actual, oracles.scores(RETURNS, REFERENCE + 1.0))
    assert oracles.agree(capped, oracles.scores(RETURNS, REFERENCE, cap=1.0))
    assert not oracles.agree(capped, oracles.scores(RETURNS, REFERENCE, cap=1.01))


def test_cap_is_per_seed_and_after_averaging_tasks() -> None:
    """Means of 1200, 1000, 1100 over 1100: only the first is capped; tasks above 1 still count."""
    np.testing.assert_allclose(capped_score(RETURNS, REFERENCE), [1.0, 10.0 / 11.0, 1.0])
    task_by_task = np.minimum(RETURNS / REFERENCE, 1.0).mean(axis=1)
    assert not oracles.agree(capped_score(RETURNS, REFERENCE), task_by_task)
    over_seeds = min(normalised_score(RETURNS, REFERENCE).mean(), 1.0)
    assert capped_score(RETURNS, REFERENCE).mean() != pytest.approx(over_seeds, rel=1e-3)


def test_means_are_in_double_precision() -> None:
    values = np.full((1, 1_000_000), 0.1, np.float32)
    assert per_seed_mean(values)[0] == pytest.approx(float(np.float32(0.1)), rel=1e-12)


def test_bootstrap_interval() -> None:
    assert oracles.agree(bootstrap_interval(SCORES), oracles.bootstrap_interval(SCORES.tolist()))


@pytest.mark.parametrize(
    "constants", [{"level": 0.94}, {"resamples": 9_000}, {"seed": 1}], ids=lambda c: next(iter(c))
)
def test_bootstrap_interval_fails_under_a_mutated_constant(constants: dict[str, float]) -> None:
    mutated = oracles.bootstrap_interval(SCORES.tolist(), **constants)  # type: ignore[arg-type]
    assert not oracles.agree(bootstrap_interval(SCORES), mutated, rtol=1e-9, atol=1e-12)


@given(st.lists(st.floats(-100.0, 100.0), min_size=2, max_size=8))
def test_interval_lies_within_the_values(values: list[float]) -> None:
    low, high = bootstrap_interval(np.asarray(values))
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_interval_is_seeded_and_moves_with_the_values() -> None:
    assert bootstrap_interval(SCORES) == bootstrap_interval(SCORES)
    low, high = bootstrap_interval(SCORES)
    shifted = bootstrap_interval(SCORES - 10.0)
    np.testing.assert_allclose(shifted, [low - 10.0, high - 10.0], rtol=1e-9)


def test_interval_covers_the_mean_of_normal_seeds_about_as_often_as_it_says() -> None:
    """With 12 seeds a percentile bootstrap covers somewhat less than 95%."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        low, high = bootstrap_interval(rng.normal(size=12))
        hits += low <= 0.0 <= high
    assert 170 <= hits <= 198


def test_intervals_of_many_rows_are_those_of_each() -> None:
    rows = np.random.default_rng(8).normal(size=(5, 6))
    rows[2] = 0.25
    expected = [bootstrap_interval(row) for row in rows]
    np.testing.assert_array_equal(bootstrap_intervals(rows), expected)
    assert bootstrap_intervals(rows[:, :1]).tolist() == [[x, x] for x in rows[:, 0]]


@pytest.mark.parametrize("values", [[0.3], [0.3, 0.3, 0.3]])
def test_one_seed_and_equal_seeds_give_a_point(values: list[float]) -> None:
    low, high = bootstrap_interval(np.asarray(values))
    assert low == high == pytest.approx(0.3)
