"""Statistics over many sets, against closed forms, hand-made cases and plain loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from idaq.runs.statistics import (
    interquartile_mean,
    interquartile_mean_interval,
    performance_profile,
    probability_of_improvement,
    probability_of_improvement_interval,
)

SCORES = np.random.default_rng(0).normal(size=(4, 6))
OTHERS = np.random.default_rng(1).normal(0.3, 1.0, size=(4, 6))
tables = st.lists(st.lists(st.floats(-10, 10), min_size=4, max_size=4), min_size=1, max_size=5)


def middle_half(values: list[float]) -> float:
    """The interquartile mean, by sorting."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    kept = ordered[cut : len(ordered) - cut]
    return sum(kept) / len(kept)


def wins(ours: list[float], theirs: list[float]) -> float:
    """The share of pairs that we win, by counting."""
    points = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a in ours for b in theirs)
    return points / (len(ours) * len(theirs))


# --- Interquartile mean ---------------------------------------------------------------------


def test_interquartile_mean_by_hand() -> None:
    assert interquartile_mean(np.arange(1.0, 9.0).reshape(2, 4)) == 4.5
    assert interquartile_mean(np.array([[1.0, 2.0, 3.0, 1e9]])) == 2.5
    assert interquartile_mean(np.array([[0.0, 0.0, 1.0, 1.0, 1.0, 5.0]])) == pytest.approx(0.75)


@given(tables)
def test_interquartile_mean(rows: list[list[float]]) -> None:
    expected = middle_half([value for row in rows for value in row])
    assert interquartile_mean(np.asarray(rows)) == pytest.approx(expected, abs=1e-9)


def test_interquartile_mean_of_a_uniform_distribution_is_its_middle() -> None:
    values = np.linspace(2.0, 6.0, 10_001).reshape(1, -1)
    assert interquartile_mean(values) == pytest.approx(4.0)


def test_its_interval_against_a_loop() -> None:
    rng = np.random.default_rng(5)
    drawn = [
        middle_half([float(v) for row in SCORES for v in rng.choice(row, len(row))])
        for _ in range(20_000)
    ]
    expected = np.quantile(drawn, [0.025, 0.975])
    np.testing.assert_allclose(interquartile_mean_interval(SCORES), expected, atol=0.02)


def test_seeds_are_drawn_within_their_set() -> None:
    """Sets differ and seeds agree: a resample is always the same, unless sets are mixed."""
    scores = np.repeat([[0.0], [1.0], [7.0], [9.0]], 5, axis=1)
    assert interquartile_mean_interval(scores) == (4.0, 4.0)


def test_its_interval_moves_and_stretches_with_the_scores() -> None:
    low, high = interquartile_mean_interval(SCORES)
    assert low < interquartile_mean(SCORES) < high
    np.testing.assert_allclose(
        interquartile_mean_interval(3.0 * SCORES + 1.0), [3.0 * low + 1.0, 3.0 * high + 1.0]
    )
    assert interquartile_mean_interval(SCORES) == (low, high), "it is seeded"


# --- Probability of improvement -------------------------------------------------------------


def test_probability_of_improvement_by_hand() -> None:
    ours, theirs = np.array([[1.0, 2.0], [3.0, 3.0]]), np.array([[0.0, 2.0], [3.0, 4.0]])
    assert probability_of_improvement(ours, theirs) == pytest.approx((2.5 / 4 + 1.0 / 4) / 2)
    assert probability_of_improvement(theirs + 10.0, ours) == 1.0
    assert probability_of_improvement(ours, ours) == 0.5


@given(tables, st.integers(0, 100))
def test_probability_of_improvement(rows: list[list[float]], seed: int) -> None:
    theirs = np.random.default_rng(seed).integers(-3, 3, size=(len(rows), 3)).astype(float)
    expected = np.mean([wins(a, b) for a, b in zip(rows, theirs.tolist(), strict=True)])
    found = probability_of_improvement(np.asarray(rows), theirs)
    assert found == pytest.approx(expected, abs=1e-9)
    assert probability_of_improvement(theirs, np.asarray(rows)) == pytest.approx(1.0 - expected)


def test_probability_of_improvement_between_normal_distributions() -> None:
    """P(X > Y) for unit normals that are 0.8 apart is Phi(0.8 / sqrt(2))."""
    rng = np.random.default_rng(2)
    ours, theirs = rng.normal(0.8, 1.0, (1, 4_000)), rng.normal(0.0, 1.0, (1, 4_000))
    expected = 0.5 * (1.0 + math.erf(0.8 / 2.0))
    assert probability_of_improvement(ours, theirs) == pytest.approx(expected, abs=0.02)


def test_its_interval_against_a_loop_of_draws() -> None:
    rng = np.random.default_rng(6)
    drawn = []
    for _ in range(5_000):
        ours = [rng.choice(row, len(row)).tolist() for row in OTHERS]
        theirs = [rng.choice(row, len(row)).tolist() for row in SCORES]
        drawn.append(np.mean([wins(a, b) for a, b in zip(ours, theirs, strict=True)]))
    expected = np.quantile(drawn, [0.025, 0.975])
    found = probability_of_improvement_interval(OTHERS, SCORES)
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_a_certain_win_is_a_point() -> None:
    assert probability_of_improvement_interval(SCORES + 100.0, SCORES) == (1.0, 1.0)
    assert probability_of_improvement_interval(np.ones((3, 1)), np.zeros((3, 1))) == (1.0, 1.0)


# --- Performance profile --------------------------------------------------------------------


def test_profile_by_hand() -> None:
    scores = np.array([[0.1, 0.4], [0.4, 0.9]])
    profile = performance_profile(scores, np.array([0.0, 0.1, 0.4, 0.8, 1.0]))
    assert profile.share.tolist() == [1.0, 0.75, 0.25, 0.25, 0.0]
    assert profile.low[0] == profile.high[0] == 1.0
    assert profile.low[2] == 0.0
    assert profile.high[2] == 0.5, "one of the second set's two seeds, drawn twice"


def test_area_under_the_profile_is_the_mean() -> None:
    scores = np.random.default_rng(4).uniform(size=(5, 6))
    at = (np.arange(2_000) + 0.5) / 2_000
    assert performance_profile(scores, at).share.mean() == pytest.approx(scores.mean(), abs=1e-3)


def test_profile_falls_and_lies_within_its_interval() -> None:
    profile = performance_profile(SCORES, np.linspace(-2.0, 2.0, 9))
    for curve in profile[1:]:
        assert (np.diff(curve) <= 0).all()
    assert (profile.low <= profile.share).all()
    assert (profile.share <= profile.high).all()


def test_profile_of_one_seed_has_no_width() -> None:
    profile = performance_profile(SCORES[:, :1], np.array([0.0]))
    assert profile.low == profile.high == profile.share


# --- Bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scores", [np.zeros(3), np.zeros((0, 2)), np.array([[np.nan, 1.0]])], ids=["1-d", "none", "nan"]
)
def test_what_is_no_table_of_scores(scores: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="finite and"):
        interquartile_mean(scores)


def test_different_numbers_of_sets() -> None:
    for compare in (probability_of_improvement, probability_of_improvement_interval):
        with pytest.raises(ValueError, match="cannot be compared"):
            compare(SCORES, OTHERS[:2])
