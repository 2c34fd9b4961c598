"""The scripted experts of ML1: the tables name real sets, and what was fixed shows."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from idaq.bench.published import dataset_return
from idaq.envs.metaworld.experts import FIXES, Fix, ml1_names


def test_names_are_the_papers() -> None:
    names = ml1_names()
    assert len(set(names)) == len(names) == 50
    assert names == sorted(names)
    assert all(dataset_return(f"ml1/{name}") is not None for name in names)


def test_fixes_name_sets_and_change_something() -> None:
    assert set(FIXES) <= set(ml1_names())
    assert Fix() not in FIXES.values()


def made(task_set: str, fix: Fix | None = None) -> tuple[Any, Any]:
    """A simulator and its expert, where metaworld is installed."""
    pytest.importorskip("metaworld")
    from idaq.envs.metaworld.sets import Ml1Env, ScriptedExpert

    env = Ml1Env(task_set)
    return env, ScriptedExpert(task_set, env, fix)


def episode(env: Any, expert: Any, task: int = 0) -> tuple[NDArray[np.float32], float]:
    """The expert's actions, and the return."""
    rng = np.random.default_rng([0, task, 0])
    obs, info = env.reset(options={"task": task})
    expert.reset()
    actions, total, truncated = [], 0.0, False
    while not truncated:
        actions.append(expert.act(obs, info, rng))
        obs, reward, _, truncated, info = env.step(actions[-1])
        total += reward
    return np.stack(actions), total


@pytest.mark.parametrize("task_set", ["stick-push", "button-press"])
def test_a_fixed_expert_returns_more_than_its_script(task_set: str) -> None:
    _, fixed = episode(*made(task_set))
    _, script = episode(*made(task_set, Fix()))
    assert fixed > 2.0 * script


def test_an_episode_depends_on_the_task_and_the_generator_alone() -> None:
    env, expert = made("plate-slide-back")
    actions, total = episode(env, expert)
    other_actions, _ = episode(env, expert, task=1)
    again_actions, again = episode(env, expert)
    assert total == again
    np.testing.assert_array_equal(actions, again_actions)
    assert not np.array_equal(actions, other_actions)


def test_noise_is_the_protocols() -> None:
    env, expert = made("pick-place")
    obs, info = env.reset(options={"task": 0})
    rng = np.random.default_rng(0)
    gripper = np.array([expert.act(obs, info, rng)[3] for _ in range(1000)])
    assert abs(gripper.mean()) < 0.01  # the script neither opens nor closes it at the start
    assert gripper.std() == pytest.approx(0.1, abs=0.01)
