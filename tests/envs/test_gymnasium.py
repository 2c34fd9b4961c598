"""The Gymnasium versions: the checker, the registry, and agreement with the JAX family."""

import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import idaq.envs.gym_point_robot
from idaq.envs import POINT_FAMILIES
from idaq.errors import IdaqError

gymnasium.register_envs(idaq.envs.gym_point_robot)  # importing it registers; this says so
IDS = {"idaq/PointRobot-v0": "point-robot", "idaq/PointRobotSparse-v0": "point-robot-sparse"}


@pytest.fixture(params=IDS)
def made(request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    """An environment of one task, and its family's name."""
    env = gymnasium.make(request.param, task=37)
    yield IDS[request.param], env
    env.close()


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("task", [None, 37])
def test_gymnasiums_own_checker_passes(name: str, task: int | None) -> None:
    env = gymnasium.make(name, task=task)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_agrees_with_the_family_step_by_step(made: tuple[str, Any]) -> None:
    name, env = made
    family = POINT_FAMILIES[name]
    key = jax.random.key(0)
    rng = np.random.default_rng(0)
    goal = np.asarray(family.task_params[37])
    step = jax.jit(family.step)
    state, expected = family.reset(jnp.asarray(37), key)
    obs, _ = env.reset(seed=0)
    np.testing.assert_array_equal(obs, expected)
    rewards = []
    for index in range(20):
        # towards the goal, shaken, and sometimes out of bounds
        action = (goal - obs + rng.normal(scale=0.1, size=2)).astype(np.float32)
        state, result = step(37, state, jnp.asarray(action), key)
        obs, reward, terminated, truncated, _ = env.step(action)
        np.testing.assert_array_equal(obs, result.obs)
        assert reward == float(result.reward)
        assert not terminated
        assert truncated == (index == 19)  # the time limit is no end of the task
        rewards.append(reward)
    assert max(rewards) > min(rewards)


def test_spaces_are_the_specs(made: tuple[str, Any]) -> None:
    name, env = made
    spec = POINT_FAMILIES[name].spec
    np.testing.assert_allclose(env.action_space.low, spec.action_low)
    np.testing.assert_allclose(env.action_space.high, spec.action_high)
    assert env.observation_space.shape == (spec.obs_dim,)
    assert env.spec.max_episode_steps == spec.horizon
    env.reset(seed=0)
    for _ in range(20):
        obs, *_ = env.step(env.action_space.high)
    assert obs in env.observation_space


def test_observations_do_not_share_memory_with_the_environment(made: tuple[str, Any]) -> None:
    """Writing to what was returned must not move the robot."""
    _, env = made
    obs, _ = env.reset(seed=0)
    try:
        obs += 1.0
    except ValueError:
        return  # read-only is as good
    after, *_ = env.step(np.zeros(2, np.float32))
    np.testing.assert_array_equal(after, 0.0)


def test_without_a_task_each_reset_draws_one_by_the_seed() -> None:
    env = gymnasium.make("idaq/PointRobot-v0")

    def reward_after(seed: int | None) -> float:
        env.reset(seed=seed)
        return float(env.step(np.full(2, 0.1, np.float32))[1])

    first = reward_after(3)
    assert reward_after(3) == first
    assert len({reward_after(seed) for seed in range(10)}) > 5
    env.reset(seed=3)
    assert len({reward_after(None) for _ in range(10)}) > 5
    env.close()


@pytest.mark.parametrize("task", [-1, 100])
def test_a_task_that_does_not_exist_is_refused(task: int) -> None:
    with pytest.raises(IdaqError, match=f"Task {task} does not exist"):
        gymnasium.make("idaq/PointRobot-v0", task=task)
