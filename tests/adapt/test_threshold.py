"""The quantile threshold: an observed value, exactly NumPy's `inverted_cdf`."""

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.adapt.idaq import quantile_threshold
from tests import oracles

PERCENTS = (1, 5, 7, 10, 14, 20, 25, 28, 29, 33, 50, 55, 57, 58, 75, 90, 99, 100)


@pytest.mark.parametrize("num", [1, 2, 3, 4, 5, 7, 9, 10, 15, 19, 20, 50, 100])
def test_many_percentages_and_numbers(num: int) -> None:
    values = np.random.default_rng(num).normal(size=num).astype(np.float32)
    for percent in PERCENTS:
        actual = float(quantile_threshold(jnp.asarray(values), float(percent)))
        assert actual == oracles.quantile_threshold(values.tolist(), percent)
        # a hair below: NumPy computes n * k in floating point and steps over exact ranks
        share = percent / 100 - 1e-12
        assert actual == np.quantile(values, share, method="inverted_cdf")


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=12),
    st.integers(1, 200),
)
def test_ties(values: list[float], half_percent: int) -> None:
    actual = float(quantile_threshold(jnp.asarray(values), half_percent / 2))
    assert actual == oracles.quantile_threshold(values, Fraction(half_percent, 2))
    assert actual in values


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=12, unique=True),
    st.permutations(range(12)),
)
def test_order_does_not_matter(values: list[float], order: list[int]) -> None:
    shuffled = [values[i] for i in order if i < len(values)]
    first = quantile_threshold(jnp.asarray(values, jnp.float32), 20.0)
    assert first == quantile_threshold(jnp.asarray(shuffled, jnp.float32), 20.0)


def test_the_papers_percentages_keep_one_episode() -> None:
    """k = 10 of 10 on Point-Robot and k = 20 of 5 elsewhere (Appendix C)."""
    for num, percent in ((10, 10.0), (5, 20.0)):
        values = jnp.arange(num, dtype=jnp.float32)
        assert quantile_threshold(values, percent) == 0.0


def test_fails_under_a_mutated_percentage() -> None:
    values = np.arange(10, dtype=np.float32)
    actual = float(quantile_threshold(jnp.asarray(values), 20.0))
    assert actual == oracles.quantile_threshold(values.tolist(), 20)
    assert actual != oracles.quantile_threshold(values.tolist(), 21)
    assert actual != np.quantile(values, 0.2)  # NumPy's default interpolates
