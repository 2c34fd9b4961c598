"""What every family of simulators keeps."""

import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from idaq.envs import CHEETAH_VEL, FAMILIES, ML1_FAMILIES
from idaq.envs.family import (
    HostFamily,
    ScriptedHostFamily,
    is_host_family,
    is_jax_family,
    is_scripted,
)
from tests.host_fakes import Walk

QUICK = ("walk", "cheetah-vel", "ml1/drawer-close", "ml1/reach")
SLOW = [
    pytest.param(name, marks=pytest.mark.slow) for name in sorted(set(ML1_FAMILIES) - set(QUICK))
]
NUM_STEPS = 40
FIRST, SECOND = 3, 1  # tasks; the fake one's are over after 3 and 1 steps


class Made(NamedTuple):
    """A family with a simulator that the tests of a family share: nothing may depend on that."""

    family: HostFamily
    env: Any


@pytest.fixture(scope="module", params=[*QUICK, *SLOW])
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    family: HostFamily = Walk()
    if request.param == CHEETAH_VEL.name:
        pytest.importorskip("mujoco")
        family = CHEETAH_VEL
    elif request.param != "walk":
        pytest.importorskip("metaworld")
        family = ML1_FAMILIES[str(request.param)]
    env = family.make_env()
    yield Made(family, env)
    env.close()


def actions_of(family: HostFamily, seed: int = 0, scale: float = 1.0) -> NDArray[np.float32]:
    """Random actions, up to `scale` times the bounds."""
    low, high = np.asarray(family.spec.action_low), np.asarray(family.spec.action_high)
    uniform = np.random.default_rng(seed).random((NUM_STEPS, family.spec.action_dim))
    return np.asarray(scale * (low + uniform * (high - low)), np.float32)


def episode(env: Any, task: int, actions: Any, seed: int = 5) -> list[Any]:
    """Everything that a simulator says, until the episode or the actions end."""
    said: list[Any] = [env.reset(seed=seed, options={"task": task})]
    for action in actions:
        said.append(env.step(action))
        if said[-1][2] or said[-1][3]:
            break
    return said


def same(first: list[Any], second: list[Any]) -> bool:
    """Bit for bit."""
    return [(step[0].tobytes(), *step[1:]) for step in first] == [
        (step[0].tobytes(), *step[1:]) for step in second
    ]


def test_description(made: Made) -> None:
    family, spec = made.family, made.family.spec
    assert is_host_family(family)
    assert not is_jax_family(family)
    assert isinstance(family, Walk) or FAMILIES[family.name] is family
    assert family.version >= 1
    assert len(spec.action_low) == len(spec.action_high) == spec.action_dim
    assert made.env.observation_space.shape == (spec.obs_dim,)
    assert made.env.observation_space.dtype == np.float32
    np.testing.assert_array_equal(
        made.env.action_space.low, np.asarray(spec.action_low, np.float32)
    )
    np.testing.assert_array_equal(
        made.env.action_space.high, np.asarray(spec.action_high, np.float32)
    )


def test_tasks_are_described_and_differ(made: Made) -> None:
    params = made.family.task_params
    assert params.dtype == np.float32
    assert np.isfinite(params).all()
    assert len(np.unique(params, axis=0)) == len(params) == made.family.num_tasks
    np.testing.assert_array_equal(params, made.family.task_params)


def test_a_worker_gets_the_same_family(made: Made) -> None:
    copy = pickle.loads(pickle.dumps(made.family))
    assert copy == made.family
    assert hash(copy) == hash(made.family), "workers keep simulators by family"


def test_what_a_simulator_says(made: Made) -> None:
    spec = made.family.spec
    (obs, info), *steps = episode(made.env, FIRST, actions_of(made.family))
    for said in (obs, *(step[0] for step in steps)):
        assert (said.shape, said.dtype) == ((spec.obs_dim,), np.float32)
        assert np.isfinite(said).all()
    for _, reward, terminated, truncated, _ in steps:
        assert isinstance(reward, float)
        assert np.isfinite(reward)
        assert isinstance(terminated, bool)
        assert isinstance(truncated, bool)
    for said in (info, *(step[4] for step in steps)):
        assert isinstance(said.get("success", False), bool)
        assert ("success" in said) == spec.has_success
        assert set(said) <= {"success", "velocity"}, "nothing of the task gets out"


def test_an_episode_depends_on_task_seed_and_actions_alone(made: Made) -> None:
    """Not on what the simulator did before: other tasks, half an episode, another simulator."""
    family, env = made
    actions = actions_of(family)
    first = episode(env, FIRST, actions)
    kept = [step[0].copy() for step in first]
    episode(env, SECOND, actions_of(family, 1)[:7])
    assert same(episode(env, FIRST, actions), first)
    assert same(episode(env, FIRST, actions), first)
    fresh = family.make_env()
    assert same(episode(fresh, FIRST, actions), first)
    fresh.close()
    for before, after in zip(kept, first, strict=True):
        np.testing.assert_array_equal(before, after[0], err_msg="observations are not reused")


def test_tasks_and_actions_matter(made: Made) -> None:
    """Shown by the expert's own actions where there is one: random ones may earn nothing at all."""
    family, env = made
    actions = actions_of(family)
    if is_scripted(family):
        actions = _expert_actions(family, env, num=family.spec.horizon)
    rewards, others, otherwise, others_otherwise = (
        [step[1] for step in episode(env, task, each)[1:]]
        for each in (actions, -actions)
        for task in (FIRST, 0)
    )
    assert rewards != others[: len(rewards)]
    assert (rewards, others) != (otherwise, others_otherwise)  # of one task it may all be zero


def test_actions_out_of_bounds_are_clipped(made: Made) -> None:
    family, spec = made.family, made.family.spec
    wild = actions_of(family, scale=3.0)
    tame = np.clip(
        wild, np.asarray(spec.action_low, np.float32), np.asarray(spec.action_high, np.float32)
    )
    assert not np.array_equal(wild, tame)
    assert same(episode(made.env, FIRST, wild), episode(made.env, FIRST, tame))


def test_global_random_numbers_are_left_alone(made: Made) -> None:
    """Neither used nor advanced, by simulators or experts."""
    family = made.family
    expected = _first_steps(family, made.env)
    np.random.seed(12345)
    before = np.random.get_state()
    env = family.make_env()
    found = _first_steps(family, env)
    env.close()
    for ours, theirs in zip(before, np.random.get_state(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(found, expected)


def _first_steps(family: HostFamily, env: Any) -> NDArray[np.float32]:
    """What the expert does or, where there is none, what a simulator shows."""
    if is_scripted(family):
        return _expert_actions(family, env)
    return np.stack([step[0] for step in episode(env, FIRST, actions_of(family))])


def _expert_actions(
    family: ScriptedHostFamily, env: Any, seed: int = 0, expert: Any = None, num: int = NUM_STEPS
) -> NDArray[np.float32]:
    """What the expert does in the first `num` steps."""
    rng = np.random.default_rng(seed)
    obs, info = env.reset(seed=seed, options={"task": FIRST})
    expert = expert or family.make_expert(env)
    expert.reset()
    actions = []
    for _ in range(num):
        actions.append(expert.act(obs, info, rng))
        obs, _, terminated, truncated, info = env.step(actions[-1])
        if terminated or truncated:
            break
    return np.stack(actions)


def test_experts(made: Made) -> None:
    """Bounded actions, from the generator that they are given; a reset forgets everything."""
    family, env = made
    if not is_scripted(family):
        pytest.skip("its behaviour policies are learned")
    expert = family.make_expert(env)
    first = _expert_actions(family, env, expert=expert)
    assert first.dtype == np.float32
    assert first.shape[1:] == (family.spec.action_dim,)
    assert (first >= np.asarray(family.spec.action_low, np.float32)).all()
    assert (first <= np.asarray(family.spec.action_high, np.float32)).all()
    other = _expert_actions(family, env, seed=1, expert=expert)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(_expert_actions(family, env, expert=expert), first)
    np.testing.assert_array_equal(_expert_actions(family, env), first)


def test_the_horizon_ends_an_episode(made: Made) -> None:
    nothing = np.zeros((made.family.spec.horizon + 1, made.family.spec.action_dim), np.float32)
    for task in (0, FIRST):
        steps = episode(made.env, task, nothing)[1:]
        assert len(steps) <= made.family.spec.horizon
        assert steps[-1][2] or steps[-1][3]
