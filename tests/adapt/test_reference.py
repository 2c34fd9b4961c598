"""Which hypotheses of the prior the reference stage tries."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.adapt.search import Searches
from idaq.settings import AdaptConfig
from tests.tiny import QUICK

NUM_TASKS, NUM = 7, 4
PRIOR = jnp.asarray(np.random.default_rng(0).normal(size=(NUM_TASKS, 2)), jnp.float32)


def first_hypotheses(config: AdaptConfig, prior: Any, key: Any) -> Any:
    return Searches.of(config).first(config, prior, key)


choose = jax.jit(first_hypotheses, static_argnums=0, compiler_options=QUICK)


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def choose_many(config: AdaptConfig, prior: Any, keys: Any) -> Any:
    """One choice per key, [keys, NUM, 2]."""
    return jax.vmap(first_hypotheses, in_axes=(None, None, 0))(config, prior, keys)


def options(reference: Any, num: int = NUM, **others: Any) -> AdaptConfig:
    return AdaptConfig(
        num_reference_episodes=num, num_iterative_episodes=1, reference=reference, **others
    )


def tasks_of(hypotheses: Any, prior: Any = PRIOR) -> list[int]:
    """Which task each hypothesis is the embedding of."""
    return [int(np.flatnonzero((np.asarray(prior) == row).all(axis=1))[0]) for row in hypotheses]


def distances(prior: Any, tried: list[int]) -> Any:
    """Each task's distance to the nearest one tried, in float64."""
    values = np.asarray(prior, np.float64)
    return np.min([np.linalg.norm(values - values[task], axis=1) for task in tried], axis=0)


def test_prior_draws_training_embeddings_evenly_and_with_replacement() -> None:
    drawn = np.asarray(choose_many(options("prior", num_candidates=3), PRIOR, KEYS))
    tasks = np.array([tasks_of(rows) for rows in drawn])
    shares = np.bincount(tasks.ravel(), minlength=NUM_TASKS) / tasks.size
    np.testing.assert_allclose(shares, 1.0 / NUM_TASKS, atol=0.05)
    assert any(len(set(row)) < NUM for row in tasks.tolist())


@given(
    st.lists(st.tuples(*[st.integers(-8, 8)] * 2), min_size=7, max_size=7, unique=True),
    st.integers(0, 2**31 - 1),
)
def test_farthest_first_maximises_the_distance_to_those_tried(
    points: list[tuple[int, int]], seed: int
) -> None:
    prior = jnp.asarray(points, jnp.float32)
    tried = tasks_of(choose(options("farthest-first"), prior, jax.random.key(seed)), prior)
    for count in range(1, NUM):
        nearest = distances(prior, tried[:count])
        assert nearest[tried[count]] == pytest.approx(nearest.max(), rel=1e-5)
    assert len(set(tried)) == NUM


KEYS = jax.random.split(jax.random.key(1), 200)


@pytest.mark.parametrize("reference", ["farthest", "farthest-first"])
def test_the_first_is_random(reference: str) -> None:
    drawn = choose_many(options(reference, num_candidates=3), PRIOR, KEYS)
    first = np.bincount(tasks_of(drawn[:, 0]), minlength=NUM_TASKS)
    assert first.min() > 10  # of 28 expected


@pytest.mark.parametrize("num_candidates", [1, 3, 40])
def test_farthest_takes_the_farthest_of_so_many_candidates(num_candidates: int) -> None:
    drawn = choose_many(options("farthest", num_candidates=num_candidates), PRIOR, KEYS)
    for index in range(10):
        tried = tasks_of(np.asarray(drawn[index]))
        step_keys = jax.random.split(KEYS[index], NUM)
        for count in range(NUM):
            offered = jax.random.randint(step_keys[count], (num_candidates,), 0, NUM_TASKS)
            candidates = np.asarray(offered)
            assert tried[count] in candidates
            if count:
                nearest = distances(PRIOR, tried[:count])
                assert nearest[tried[count]] == pytest.approx(nearest[candidates].max(), rel=1e-5)


def test_more_candidates_spread_wider() -> None:
    spread = []
    for num_candidates in (1, 3, 40):
        drawn = choose_many(options("farthest", num_candidates=num_candidates), PRIOR, KEYS)
        tasks = [tasks_of(rows) for rows in np.asarray(drawn)]
        spread.append(np.mean([distances(PRIOR, row[:-1])[row[-1]] for row in tasks]))
    assert spread[0] < spread[1] < spread[2]


def test_farthest_first_tries_every_task_before_any_twice() -> None:
    tried = tasks_of(choose(options("farthest-first", num=9), PRIOR, jax.random.key(0)))
    assert sorted(tried[:NUM_TASKS]) == list(range(NUM_TASKS))
    assert len(tried) == 9


def test_zero_is_no_hypothesis() -> None:
    chosen = choose(options("zero"), PRIOR, jax.random.key(0))
    np.testing.assert_array_equal(chosen, np.zeros((NUM, 2)))


@pytest.mark.parametrize("reference", ["prior", "farthest", "farthest-first"])
def test_choice_is_seeded(reference: str) -> None:
    config = options(reference, num_candidates=3)
    once, again = (np.asarray(choose_many(config, PRIOR, KEYS)) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert len({rows.tobytes() for rows in once}) > 5


def test_repeated_hypotheses_are_chosen_once() -> None:
    config = options("prior", num=4, episodes_per_hypothesis=2)
    assert choose(config, PRIOR, jax.random.key(0)).shape == (2, 2)
