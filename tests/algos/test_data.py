"""How meta-batches are drawn, and the units that networks see."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from idaq.algos.data import (
    identity_normaliser,
    sample_rows,
    sample_tasks,
    scale_action,
    split_batches,
    unscale_action,
)
from idaq.types import Transition
from tests import tiny


def test_tasks_are_training_tasks_drawn_with_replacement() -> None:
    tasks = np.asarray(sample_tasks(tiny.data(), 400, jax.random.key(0)))
    assert set(tasks) == set(tiny.TRAIN_TASKS)
    counts = [int((tasks == task).sum()) for task in tiny.TRAIN_TASKS]
    assert min(counts) > 60  # of 100 expected


def test_as_many_draws_as_tasks_mostly_repeat_one() -> None:
    """24 of 256 ways to draw four of four do not; without pairs there is nothing to pull."""
    keys = jax.random.split(jax.random.key(1), 300)
    drawn = np.asarray(jax.vmap(lambda key: sample_tasks(tiny.data(), 4, key))(keys))
    without = sum(len(set(row)) == 4 for row in drawn.tolist())
    assert 10 <= without <= 50  # of 28 expected


def test_rows_belong_to_their_task_and_stay_together() -> None:
    data = tiny.data()
    numbered = data.replaced(
        rows=data.rows._replace(
            reward=jnp.arange(len(data.rows.reward), dtype=jnp.float32),
        )
    )
    tasks = jnp.asarray([3, 0, 3, 1])
    rows = sample_rows(numbered, tasks, 200, jax.random.key(1))
    for index, task in enumerate(np.asarray(tasks)):
        number = np.asarray(rows.reward[index]).astype(int)
        start, count = int(data.task_start[task]), int(data.task_count[task])
        assert set(number) == set(range(start, start + count))  # 200 draws of at most 8
        np.testing.assert_array_equal(rows.obs[index], data.rows.obs[number])
        np.testing.assert_array_equal(rows.next_obs[index], data.rows.next_obs[number])
        np.testing.assert_array_equal(rows.action[index], data.rows.action[number])
        np.testing.assert_array_equal(rows.terminated[index], data.rows.terminated[number])


def test_the_same_task_twice_gets_different_rows() -> None:
    rows = sample_rows(tiny.data(), jnp.asarray([0, 0]), 20, jax.random.key(1))
    assert not np.array_equal(rows.reward[0], rows.reward[1])


def test_batches_have_rows_of_every_task() -> None:
    """[tasks, batches * size] to [batches, tasks * size], task by task."""
    obs = jnp.arange(2 * 6 * 3, dtype=jnp.float32).reshape(2, 6, 3)
    rows = Transition(obs, obs[..., :2], obs[..., 0], obs, obs[..., 0] > 5.0)
    split = split_batches(rows, 3)
    for batch in range(3):
        own = slice(2 * batch, 2 * batch + 2)
        expected = np.concatenate([np.asarray(obs)[0, own], np.asarray(obs)[1, own]])
        np.testing.assert_array_equal(split.obs[batch], expected)
        np.testing.assert_array_equal(split.reward[batch], expected[:, 0])
        np.testing.assert_array_equal(split.terminated[batch], expected[:, 0] > 5.0)
    assert split.action.shape == (3, 4, 2)


def test_actions_scale_to_the_unit_box() -> None:
    low, high = jnp.asarray(tiny.SPEC.action_low), jnp.asarray(tiny.SPEC.action_high)
    np.testing.assert_allclose(scale_action(tiny.SPEC, low), -1.0)
    np.testing.assert_allclose(scale_action(tiny.SPEC, high), 1.0)
    np.testing.assert_allclose(scale_action(tiny.SPEC, (low + high) / 2), 0.0, atol=1e-7)
    np.testing.assert_allclose(scale_action(tiny.SPEC, high + 1.0), 1.0)  # clipped


@given(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_scaling_actions_is_undone(x: float, y: float) -> None:
    action = jnp.asarray([x, y])
    there = unscale_action(tiny.SPEC, action)
    assert (there >= jnp.asarray(tiny.SPEC.action_low)).all()
    assert (there <= jnp.asarray(tiny.SPEC.action_high)).all()
    np.testing.assert_allclose(scale_action(tiny.SPEC, there), action, atol=1e-6)


def test_normaliser() -> None:
    normaliser = tiny.data().normaliser
    np.testing.assert_allclose(normaliser.obs(jnp.asarray([0.6, 1.8, 0.3])), [1.0, 1.0, 0.0])
    assert normaliser.reward(jnp.asarray(1.0)) == 1.0
    nothing, obs = identity_normaliser(3), jnp.asarray([0.6, 1.8, 0.3])
    np.testing.assert_array_equal(nothing.obs(obs), obs)
    assert nothing.reward(jnp.asarray(1.5)) == 1.5
