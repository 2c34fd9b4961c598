"""The faster environments against metaworld's own: the same numbers, bit for bit."""

import warnings
from typing import Any

import numpy as np
import pytest

from idaq.envs.metaworld import sets as ml1
from idaq.envs.metaworld.experts import ml1_names
from idaq.envs.metaworld.sawyer_speed import speed_up_script

pytest.importorskip("metaworld")

# A rotated object with the base class's reward and with rewards of their own, two objects, a hand
# that is reset otherwise, another sigmoid, a goal that moves with the scene.
SETS = ("push", "pick-place", "soccer", "stick-pull", "window-close", "door-close", "basketball")


@pytest.mark.parametrize("task_set", SETS)
def test_the_faster_environment_gives_the_same_numbers(task_set: str) -> None:
    _compare(task_set, tasks=(0, 3), num_steps=75, expert_steps=50)


@pytest.mark.parametrize("task_set", ml1_names())
def test_a_faster_script_gives_the_same_actions(task_set: str) -> None:
    script_class = ml1._metaworld().policies.ENV_POLICY_MAP[f"{task_set}-v3"]
    plain, fast = script_class(), speed_up_script(script_class)()
    for obs in np.random.default_rng(0).uniform(-1.0, 1.0, (20, ml1.OBS_DIM)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = plain.get_action(obs.copy())  # some scripts write into it
        assert fast.get_action(obs.copy()).tobytes() == expected.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("task_set", ml1_names())
def test_the_faster_environment_gives_the_same_numbers_in_whole_episodes(task_set: str) -> None:
    _compare(task_set, tasks=(0, 17, 49), num_steps=ml1.HORIZON, expert_steps=ml1.HORIZON)
    _compare(task_set, tasks=(5, 31), num_steps=ml1.HORIZON, expert_steps=0)
    _compare(task_set, tasks=(8,), num_steps=ml1.HORIZON, expert_steps=ml1.HORIZON // 2)


def _compare(task_set: str, tasks: tuple[int, ...], num_steps: int, expert_steps: int) -> None:
    """Episodes in a row: first the expert's noisy actions, then random ones, some out of bounds."""
    env_class, ml1_tasks = ml1._benchmark(task_set)
    env = ml1.Ml1Env(task_set)
    fast = env._env
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = env_class()
    assert type(fast) is not env_class
    expert = ml1.ScriptedExpert(task_set, env)
    rng = np.random.default_rng(0)
    for task in tasks:
        fast.set_task(ml1_tasks[task])
        plain.set_task(ml1_tasks[task])
        obs, expected = fast.reset()[0], plain.reset()[0]
        expert.reset()
        info: dict[str, Any] = {"success": False}
        for step in range(num_steps):
            where = (task_set, task, step)
            assert obs.dtype == expected.dtype == np.float64
            assert obs.tobytes() == expected.tobytes(), where
            assert env.goal.tobytes() == np.float64(plain._get_pos_goal()).tobytes(), where
            if step < expert_steps:
                action = expert.act(env._visible(obs), {"success": info["success"] > 0}, rng)
            else:
                action = rng.uniform(-1.2, 1.2, ml1.ACTION_DIM).astype(np.float32)
            obs, reward, _, truncated, info = fast.step(action)
            expected, expected_reward, _, expected_truncated, expected_info = plain.step(action)
            assert reward == expected_reward, where
            assert truncated == expected_truncated, where
            assert info == expected_info, where
        assert obs.tobytes() == expected.tobytes()
    fast.close()
    plain.close()
