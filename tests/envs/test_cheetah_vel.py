"""Cheetah-Vel: Gymnasium's own HalfCheetah, bit for bit, with another reward and hidden targets."""

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

from idaq.envs import CHEETAH_VEL, get_family
from idaq.envs.cheetah_vel import CheetahVelEnv, target_velocities
from idaq.errors import IdaqError

ACTIONS = np.random.default_rng(0).uniform(-1.2, 1.2, (200, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def env() -> CheetahVelEnv:
    pytest.importorskip("mujoco")
    return CHEETAH_VEL.make_env()


@pytest.mark.parametrize("seed", [0, 77])
def test_it_is_gymnasiums(env: CheetahVelEnv, seed: int) -> None:
    """Start, motion and velocity of HalfCheetah-v5, after whatever the simulator did before."""
    theirs: Any = gymnasium.make("HalfCheetah-v5").unwrapped
    expected, _ = theirs.reset(seed=seed)
    obs, _ = env.reset(seed=seed, options={"task": 3})
    np.testing.assert_array_equal(obs, expected.astype(np.float32))
    for action in ACTIONS:
        clipped = np.clip(action, -1.0, 1.0)
        expected, _, _, _, their_info = theirs.step(clipped)
        obs, reward, terminated, truncated, info = env.step(action)
        np.testing.assert_array_equal(obs, expected.astype(np.float32))
        assert info["velocity"] == their_info["x_velocity"]
        away = abs(info["velocity"] - float(target_velocities()[3]))
        cost = 0.05 * np.square(clipped.astype(np.float64)).sum()
        assert reward == pytest.approx(-away - cost, abs=1e-6)
        assert not terminated
    assert truncated
    theirs.close()


def test_the_targets_are_one_draw_over_the_range() -> None:
    targets = target_velocities()
    assert targets.shape == (100,)
    assert targets.min() >= 0.0
    assert targets.max() <= 3.0
    assert np.histogram(targets, bins=5, range=(0.0, 3.0))[0].min() >= 10
    np.testing.assert_array_equal(CHEETAH_VEL.task_params[:, 0], targets)


def test_the_observation_does_not_depend_on_the_target(env: CheetahVelEnv) -> None:
    seen = []
    for task in (0, 50):
        obs, _ = env.reset(seed=1, options={"task": task})
        seen.append([obs, *(env.step(action)[0] for action in ACTIONS[:20])])
    np.testing.assert_array_equal(seen[0], seen[1])


@pytest.mark.parametrize("task", [-1, 100])
def test_there_are_a_hundred_tasks(env: CheetahVelEnv, task: int) -> None:
    with pytest.raises(IdaqError, match="0 to 99"):
        env.reset(seed=0, options={"task": task})


def test_without_mujoco(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(IdaqError, match=r"idaq\[mujoco\]"):
        CHEETAH_VEL.check_simulator()
    with pytest.raises(IdaqError, match=r"idaq\[mujoco\]"):
        CHEETAH_VEL.make_env()
    assert get_family("cheetah-vel").num_tasks == 100, "the family is known all the same"
