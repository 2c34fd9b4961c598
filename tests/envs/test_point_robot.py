"""Point-Robot: dynamics, rewards, goals and experts against their formulas."""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.bench.published import dataset_return
from idaq.envs import POINT_FAMILIES, get_family
from idaq.envs.point_robot import PointRobot, goals
from idaq.errors import IdaqError
from idaq.storage.dataset import Dataset

KEY = jax.random.key(0)
coordinate = st.floats(-2.0, 2.0, width=32)
STEPS = {name: jax.jit(family.step) for name, family in POINT_FAMILIES.items()}


def goal(task: int) -> tuple[float, float]:
    angle = math.pi * task / 99
    return math.cos(angle), math.sin(angle)


def test_goals_lie_evenly_on_the_upper_unit_half_circle() -> None:
    points = goals()
    assert points.shape == (100, 2)
    np.testing.assert_allclose(points, [goal(task) for task in range(100)], atol=1e-6)
    np.testing.assert_allclose(points[[0, -1]], [(1.0, 0.0), (-1.0, 0.0)], atol=1e-6)
    gaps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    np.testing.assert_allclose(gaps, 2 * math.sin(math.pi / 99 / 2), rtol=1e-3)
    for family in POINT_FAMILIES.values():
        np.testing.assert_array_equal(family.task_params, points)


@pytest.mark.parametrize("name", POINT_FAMILIES)
def test_spec(name: str) -> None:
    family = POINT_FAMILIES[name]
    spec = family.spec
    assert (spec.obs_dim, spec.action_dim, spec.horizon, family.num_tasks) == (2, 2, 20, 100)
    assert spec.action_low == (-0.1, -0.1)
    assert spec.action_high == (0.1, 0.1)
    assert not spec.has_success


@pytest.mark.parametrize("name", POINT_FAMILIES)
def test_every_task_starts_at_the_origin(name: str) -> None:
    for task in (0, 50, 99):
        state, obs = POINT_FAMILIES[name].reset(jnp.asarray(task), jax.random.key(task))
        np.testing.assert_array_equal(obs, 0.0)
        np.testing.assert_array_equal(state, 0.0)


@given(st.integers(0, 99), st.tuples(coordinate, coordinate), st.tuples(coordinate, coordinate))
def test_step(task: int, position: tuple[float, float], action: tuple[float, float]) -> None:
    """Each axis moves by the action, at most 0.1; the reward is that of the new position."""
    moved = [p + min(max(a, -0.1), 0.1) for p, a in zip(position, action, strict=True)]
    distance = math.dist(moved, goal(task))
    rewards = {
        "point-robot": -distance,
        "point-robot-sparse": (0.2 - distance) / 0.2 if distance < 0.2 else 0.0,
    }
    for name, step in STEPS.items():
        state, result = step(task, jnp.asarray(position), jnp.asarray(action), KEY)
        np.testing.assert_allclose(result.obs, moved, atol=1e-6)
        np.testing.assert_array_equal(state, result.obs)
        assert float(result.reward) == pytest.approx(rewards[name], abs=1e-5)
        assert not result.terminated
        assert not result.success


@given(st.integers(0, 99), st.floats(0.0, 0.3), st.floats(0.0, 2 * math.pi))
def test_sparse_reward_inside_the_radius(task: int, distance: float, angle: float) -> None:
    x, y = goal(task)
    position = jnp.asarray([x + distance * math.cos(angle), y + distance * math.sin(angle)])
    _, result = STEPS["point-robot-sparse"](task, position, jnp.zeros(2), KEY)
    assert float(result.reward) == pytest.approx(max(0.2 - distance, 0.0) / 0.2, abs=1e-5)


@given(st.integers(0, 99), st.tuples(coordinate, coordinate), st.integers(0, 1000))
def test_expert_acts_within_bounds(task: int, obs: tuple[float, float], seed: int) -> None:
    action = EXPERT(task, jnp.asarray(obs), jax.random.key(seed))
    assert (jnp.abs(action) <= 0.1 + 1e-7).all()


EXPERT = jax.jit(PointRobot().expert)


def test_expert_heads_for_its_goal() -> None:
    """On average over the noise, and as fast as the bounds allow."""
    keys = jax.random.split(KEY, 2000)
    for task in (5, 50, 80):
        actions = jax.vmap(EXPERT, in_axes=(None, None, 0))(task, jnp.zeros(2), keys)
        mean = np.asarray(actions).mean(axis=0)
        cosine = mean @ np.asarray(goal(task)) / np.linalg.norm(mean)
        assert cosine > 0.97
        assert np.abs(mean).max() > 0.07


BANDS: list[tuple[Any, float, float]] = [
    ("point-robot", -5.72, 0.3),
    ("point-robot-sparse", 7.28, 0.6),
]


@pytest.mark.parametrize(("name", "paper", "band"), BANDS)
def test_dataset_returns_what_the_papers_does(
    datasets: dict[str, Dataset], name: str, paper: float, band: float
) -> None:
    assert dataset_return(name) == paper
    assert datasets[name].episode_returns().mean() == pytest.approx(paper, abs=band)


def test_every_task_is_about_as_easy(datasets: dict[str, Dataset]) -> None:
    """No expert fails: the worst task's mean return is near the others'."""
    returns = datasets["point-robot"].episode_returns().reshape(100, 45).mean(axis=1)
    assert returns.min() > -7.5


@pytest.mark.parametrize("reward", ["dense", "sparse"])
def test_families_are_hashable_and_found_by_name(reward: Literal["dense", "sparse"]) -> None:
    family = PointRobot(reward)
    assert get_family(family.name) == family
    assert hash(get_family(family.name)) == hash(family)


def test_unknown_family_is_refused_with_a_suggestion() -> None:
    with pytest.raises(IdaqError, match="Did you mean 'point-robot'"):
        get_family("point-robt")
