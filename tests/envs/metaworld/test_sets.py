"""Meta-World ML1: hidden goals, fixed tasks, episodes that repeat."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from idaq.envs import ML1_FAMILIES, get_family
from idaq.envs.metaworld import sets as ml1
from idaq.errors import IdaqError
from tests.host_fakes import Walk

SETS = ("drawer-close", "reach")


@pytest.fixture(scope="module", autouse=True)
def _needs_metaworld() -> None:
    pytest.importorskip("metaworld")


@pytest.fixture(scope="module", params=SETS)
def env(request: pytest.FixtureRequest) -> Any:
    return ml1.Ml1(str(request.param)).make_env()


@pytest.fixture(scope="module")
def reach() -> Any:
    return ml1.Ml1("reach").make_env()


def steps(env: Any, num: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [env.step(rng.uniform(-1, 1, 4).astype(np.float32)) for _ in range(num)]


def test_the_goal_is_hidden_in_every_observation(env: Any) -> None:
    for task in (0, 17, 49):
        obs, _ = env.reset(options={"task": task})
        seen = np.stack([obs, *(step[0] for step in steps(env, 30))])
        assert not seen[:, -3:].any()
        assert np.ptp(seen[:, :3], axis=0).all(), "the hand is seen to move"


def test_no_place_of_the_observation_is_the_goal(reach: Any) -> None:
    """Also not in the frame before, which an observation holds too."""
    goals = []
    for task in range(0, 50, 5):
        obs, _ = reach.reset(options={"task": task})
        goal = reach.goal
        goals.append(goal)
        seen = np.stack([obs, *(step[0] for step in steps(reach, 5))])
        assert np.abs(seen[:, :, None] - goal).min() > 1e-6
    assert len(np.unique(goals, axis=0)) == 10


def test_the_expert_is_told_the_goal(reach: Any) -> None:
    """It ends where only somebody who knows the goal can end."""
    expert = ml1.Ml1("reach").make_expert(reach)
    for task in (2, 31):
        rng = np.random.default_rng(0)
        obs, info = reach.reset(options={"task": task})
        expert.reset()
        start = np.linalg.norm(obs[:3] - reach.goal)
        for _ in range(120):
            obs, _, _, _, info = reach.step(expert.act(obs, info, rng))
        assert np.linalg.norm(obs[:3] - reach.goal) < 0.06 < start
        assert info["success"]


def test_an_expert_needs_a_simulator_of_its_own() -> None:
    with pytest.raises(TypeError, match="ml1/reach needs a simulator"):
        ml1.Ml1("reach").make_expert(Walk().make_env())


def test_tasks_are_those_of_the_benchmark_in_its_order() -> None:
    """Built anew, whatever the global random state is, which is left as it was."""
    family = ml1.Ml1("reach")
    params = family.task_params
    np.random.seed(99)
    ml1._benchmark.cache_clear()
    before = np.random.get_state()
    np.testing.assert_array_equal(family.task_params, params)
    for ours, theirs in zip(before, np.random.get_state(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    benchmark = ml1._metaworld().ML1("reach-v3", seed=1337)
    drawn = [pickle.loads(task.data)["rand_vec"] for task in benchmark.train_tasks]
    np.testing.assert_array_equal(params, np.asarray(drawn, np.float32))
    assert len(params) == family.num_tasks == 50


OTHER_PROCESS = """
import hashlib, sys
import numpy as np
np.random.seed(7)
np.random.rand(1000)
from idaq.envs import get_family
family = get_family("ml1/reach")
env = family.make_env()
for task in (40, 3):
    digest = hashlib.sha256(family.task_params.tobytes())
    obs, _ = env.reset(seed=task, options={"task": task})
    rng = np.random.default_rng(0)
    for _ in range(50):
        digest.update(obs.tobytes())
        obs, reward, *_ = env.step(rng.uniform(-1, 1, 4).astype(np.float32))
        digest.update(np.float64(reward).tobytes())
print(digest.hexdigest())
"""


def test_another_process_has_the_same_tasks_and_episodes(capsys: Any) -> None:
    """In another order, with other global random numbers."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS], capture_output=True, text=True, check=True
    )
    here = OTHER_PROCESS.replace("(40, 3)", "(12, 3)").replace("np.random.seed(7)", "")
    exec(compile(here, "here", "exec"), {})
    assert done.stdout == capsys.readouterr().out != ""


@pytest.mark.parametrize("task", [-1, 50, 10**6])
def test_tasks_that_do_not_exist(reach: Any, task: int) -> None:
    with pytest.raises(IdaqError, match=rf"no task {task}\. Give 0 to 49"):
        reach.reset(options={"task": task})


def test_the_first_task_by_default(reach: Any) -> None:
    obs, _ = reach.reset(options={"task": 0})
    goal = reach.goal
    reach.reset(options={"task": 1})
    np.testing.assert_array_equal(reach.reset()[0], obs)
    np.testing.assert_array_equal(reach.goal, goal)


def test_an_episode_is_cut_off_at_the_horizon_and_never_ends_itself() -> None:
    """Success is said step by step, and is no end either."""
    family = ml1.Ml1("drawer-close")
    env = family.make_env()
    expert, rng = family.make_expert(env), np.random.default_rng(0)
    obs, info = env.reset(options={"task": 3})
    assert info == {"success": False}
    expert.reset()
    successes = []
    for step in range(1, family.spec.horizon + 1):
        obs, _, terminated, truncated, info = env.step(expert.act(obs, info, rng))
        assert not terminated
        assert truncated == (step == 500)
        successes.append(info["success"])
    first = successes.index(True)
    assert 5 < first < 400
    assert not any(successes[:first])


def test_metaworld_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "metaworld", None)
    ml1._benchmark.cache_clear()
    family = get_family("ml1/push")
    assert family.spec.obs_dim == 39, "what it is can be said without"
    for use in (lambda: family.task_params, ML1_FAMILIES["ml1/push"].make_env):
        with pytest.raises(IdaqError, match=r"ml1/.*pip install 'idaq\[metaworld\]'"):
            use()


def test_fifty_sets() -> None:
    assert len(ML1_FAMILIES) == 50
    assert all(family.name == name for name, family in ML1_FAMILIES.items())
    assert len(set(ML1_FAMILIES.values())) == 50
