"""Episodes of agents in simulators: padding, memory, seeds, and reuse of equal episodes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.methods import make_adapter
from idaq.algos.base import Algorithm
from idaq.algos.borel.algorithm import Borel
from idaq.algos.macaw.outer import Macaw
from idaq.engine.meta_test import Results, evaluate
from idaq.engine.pool import WorkerPool
from idaq.engine.rollout import HostRollouts, Rollouts, ScannedRollouts, make_rollouts
from idaq.engine.units import UNIT_EPISODES
from idaq.settings import AdaptConfig
from idaq.types import Episodes, PyTree
from tests import fakes, tiny
from tests.host_fakes import (
    ACTION_DIM,
    HORIZON,
    OBS_DIM,
    HostTargets,
    InlinePool,
    Remembers,
    Walk,
    remembering_agents,
    start_of,
)

NUM_AGENTS, NUM_TASKS = 2, 7
FAMILY = Walk(num_tasks=NUM_TASKS)
POLICY = Remembers()

Work = dict[str, Any]


def work(num_tasks: int = NUM_TASKS) -> Work:
    """The arguments of `run`: every agent on tasks 0, 1, ..., with hypotheses of its own."""
    rng = np.random.default_rng(0)
    shape = (NUM_AGENTS, num_tasks, ACTION_DIM)
    return {
        "agents": remembering_agents(NUM_AGENTS),
        "hypotheses": rng.normal(size=shape).astype(np.float32),
        "tasks": np.tile(np.arange(num_tasks), (NUM_AGENTS, 1)),
        "keys": jax.random.split(jax.random.key(3), (NUM_AGENTS, num_tasks)),
    }


@pytest.fixture(scope="module")
def found() -> Episodes:
    return HostRollouts(FAMILY, POLICY, InlinePool()).run(**work())


def test_a_worker_knows_a_family_again(tmp_path: Path) -> None:
    """Also one whose copies are not equal: its simulators are made once, and programs compiled."""
    log = tmp_path / "made"
    rollouts = HostRollouts(Plain(str(log)), POLICY, pool := WorkerPool(1))
    with pool:
        for key in (3, 4, 5):
            keys = jax.random.split(jax.random.key(key), (NUM_AGENTS, NUM_TASKS))
            rollouts.run(**(work() | {"keys": keys}))
    assert len(log.read_text().splitlines()) <= UNIT_EPISODES


class Plain:
    """A family like any class: equal to itself alone. It writes down the simulators it makes."""

    name, version, num_tasks, spec = "plain", 1, NUM_TASKS, FAMILY.spec
    task_params = FAMILY.task_params

    def __init__(self, log: str) -> None:
        self.log = log

    def check_simulator(self) -> None: ...

    def make_env(self, render_mode: str | None = None) -> Any:
        with Path(self.log).open("a") as file:
            file.write("one\n")
        return FAMILY.make_env()


def test_the_engine_fits_the_family() -> None:
    pool = InlinePool()
    assert isinstance(make_rollouts(FAMILY, POLICY, pool), HostRollouts)
    assert isinstance(make_rollouts(fakes.Targets(((0.0, 0.0),)), POLICY, pool), ScannedRollouts)
    with pytest.raises(ValueError, match=r"walk runs in worker processes; give a WorkerPool"):
        make_rollouts(FAMILY, POLICY)


def test_shapes_and_types(found: Episodes) -> None:
    lead = (NUM_AGENTS, NUM_TASKS, HORIZON)
    assert found.obs.shape == found.next_obs.shape == (*lead, OBS_DIM)
    assert found.action.shape == (*lead, ACTION_DIM)
    for numbers in (found.obs, found.action, found.reward, found.next_obs):
        assert numbers.dtype == np.float32
    assert found.reward.shape == lead
    for flags in (found.terminated, found.success, found.valid):
        assert flags.shape == lead
        assert flags.dtype == np.bool_


def test_nothing_takes_place_after_the_end(found: Episodes) -> None:
    for task in range(NUM_TASKS):
        length = FAMILY.length(task)
        assert found.valid[:, task].tolist() == [[s < length for s in range(HORIZON)]] * 2
        for field in found:
            assert not field[:, task, length:].any()
        last = [False] * (length - 1) + [FAMILY.is_terminal(task)]
        assert found.terminated[:, task, :length].tolist() == [last] * 2
        assert found.reward[:, task, :length].all()
    assert len({FAMILY.length(task) for task in range(NUM_TASKS)}) > 2


def test_an_episode_is_one_walk(found: Episodes) -> None:
    """Each observation is the result of the previous step, and steps are the simulator's."""
    later = found.valid[..., 1:]
    before, after = found.next_obs[..., :-1, :], found.obs[..., 1:, :]
    np.testing.assert_array_equal(after[later], before[later])
    moved = found.obs[..., :2] + np.clip(found.action, -0.5, 0.5)
    np.testing.assert_array_equal(found.next_obs[..., :2][found.valid], moved[found.valid])
    steps = np.broadcast_to(np.arange(HORIZON), found.valid.shape)
    np.testing.assert_array_equal(found.obs[..., 2][found.valid], steps[found.valid])
    distance = np.linalg.norm(found.next_obs[..., :2] - FAMILY.task_params[:, None], axis=-1)
    np.testing.assert_allclose(found.reward[found.valid], 1 - distance[found.valid], atol=1e-6)
    np.testing.assert_array_equal(found.success, found.valid & (distance < 0.25))


def test_memory_takes_every_reward_before_the_next_action(found: Episodes) -> None:
    """Against a plain loop over the recorded observations and rewards."""
    given = work()
    for agent in range(NUM_AGENTS):
        bias, weight = given["agents"]["bias"][agent], given["agents"]["weight"][agent]
        for task in range(NUM_TASKS):
            memory = given["hypotheses"][agent, task] + bias
            for step in range(FAMILY.length(task)):
                if step > 0:
                    memory = memory * found.reward[agent, task, step - 1] + step
                obs = found.obs[agent, task, step]
                key = jax.random.fold_in(given["keys"][agent, task], step)
                noise = 0.01 * np.asarray(jax.random.normal(key, (ACTION_DIM,)))
                expected = 0.25 * np.tanh(memory + weight * obs[:2]) + noise
                np.testing.assert_allclose(found.action[agent, task, step], expected, atol=1e-5)
                memory = 0.5 * memory + obs[2]


def test_the_seed_reaches_the_simulator(found: Episodes, tmp_path: Path) -> None:
    """A key gives a seed, and the seed gives the start; every key has its own."""
    log = tmp_path / "log"
    rollouts = HostRollouts(replace(FAMILY, log=str(log)), POLICY, InlinePool())
    assert tiny.same(rollouts.run(**work()), found)
    lines = [line.split() for line in log.read_text().splitlines()]
    assert [int(task) for task, _, _ in lines] == [*range(NUM_TASKS)] * NUM_AGENTS
    assert len({seed for _, seed, _ in lines}) == NUM_AGENTS * NUM_TASKS
    starts = [start_of(np.random.Generator(np.random.PCG64(int(seed)))) for _, seed, _ in lines]
    np.testing.assert_array_equal(found.obs[:, :, 0, :2].reshape(-1, 2), starts)


@pytest.mark.parametrize("num_workers", [1, 2, 3, 50])
def test_how_episodes_are_cut_into_units_does_not_matter(found: Episodes, num_workers: int) -> None:
    pool = InlinePool(num_workers)
    assert tiny.same(HostRollouts(FAMILY, POLICY, pool).run(**work()), found)
    sizes = [len(unit.rows) for unit in pool.units]
    assert sum(sizes) == NUM_AGENTS * NUM_TASKS
    assert max(sizes) == max(1, min(UNIT_EPISODES, NUM_AGENTS * NUM_TASKS // (2 * num_workers)))


def test_other_episodes_of_a_call_do_not_matter(found: Episodes) -> None:
    """With the first tasks alone (also after another call), and with one agent alone."""
    few = work()
    few = {name: value if name == "agents" else _first(value, 5) for name, value in few.items()}
    for before in ((), ("other",)):
        rollouts = HostRollouts(FAMILY, POLICY, InlinePool())
        if before:
            rollouts.run(**{**work(), "keys": jax.random.split(jax.random.key(8), (2, NUM_TASKS))})
        assert tiny.same(rollouts.run(**few), jax.tree.map(lambda x: x[:, :5], found))
    second = jax.tree.map(lambda x: x[1:], work())
    alone = HostRollouts(FAMILY, POLICY, InlinePool()).run(**second)
    assert tiny.same(alone, jax.tree.map(lambda x: x[1:], found))


def _first(tree: PyTree, num: int) -> PyTree:
    return jax.tree.map(lambda x: x[:, :num], tree)


def test_equal_episodes_are_run_once(found: Episodes) -> None:
    pool = InlinePool()
    rollouts = HostRollouts(FAMILY, POLICY, pool)
    for _ in range(3):
        assert tiny.same(rollouts.run(**work()), found)
    assert pool.num_episodes == NUM_AGENTS * NUM_TASKS


def _changed_hypothesis(given: Work) -> None:
    given["hypotheses"][1, 4, 0] = np.nextafter(given["hypotheses"][1, 4, 0], np.float32(9.0))


def _changed_key(given: Work) -> None:
    given["keys"] = given["keys"].at[1, 4].set(jax.random.key(77))


def _changed_task(given: Work) -> None:
    given["tasks"][1, 4] = 0


@pytest.mark.parametrize("change", [_changed_hypothesis, _changed_key, _changed_task])
def test_a_change_is_a_new_episode(found: Episodes, change: Callable[[Work], None]) -> None:
    pool = InlinePool()
    rollouts = HostRollouts(FAMILY, POLICY, pool)
    rollouts.run(**work())
    del pool.units[:]
    given = work()
    change(given)
    changed = rollouts.run(**given)
    assert pool.num_episodes == 1
    assert tiny.same(changed, HostRollouts(FAMILY, POLICY, InlinePool()).run(**given))
    unchanged = np.ones((NUM_AGENTS, NUM_TASKS), bool)
    unchanged[1, 4] = False
    for before, after in zip(found, changed, strict=True):
        np.testing.assert_array_equal(before[unchanged], after[unchanged])
    if change is not _changed_hypothesis:
        assert not np.array_equal(found.obs[1, 4], changed.obs[1, 4])


def test_another_agent_has_new_episodes(found: Episodes) -> None:
    pool = InlinePool()
    rollouts = HostRollouts(FAMILY, POLICY, pool)
    rollouts.run(**work())
    del pool.units[:]
    given = work()
    given["agents"]["bias"][1] += 0.5
    changed = rollouts.run(**given)
    assert pool.num_episodes == NUM_TASKS
    np.testing.assert_array_equal(changed.action[0], found.action[0])
    assert not np.array_equal(changed.action[1], found.action[1])


# --- The meta-test loop over both engines ---

TARGETS = ((0.0, 0.0), (2.0, 1.0), (-3.0, 0.5))
LENGTHS = (3, 2, 1)
ALGORITHM = fakes.ActsAsBelieved()
CONFIG = AdaptConfig(
    num_reference_episodes=3,
    num_iterative_episodes=2,
    keep_percent=60.0,
    reference="farthest-first",
    final="best",
)


def adapted(rollouts: Rollouts, method: str, *, anytime: bool = True) -> Results:
    prior = np.asarray([(1.0, 0.0), (-1.0, 2.0), (2.0, 1.0), (4.0, -1.0)])
    agents = [fakes.agent(prior + seed) for seed in (0, 1)]
    return evaluate(
        rollouts,
        make_adapter(method, CONFIG, ALGORITHM),
        jax.tree.map(lambda *x: jnp.stack(x), *agents),
        jnp.tile(jnp.arange(3), (2, 1)),
        tiny.keys(0, 1),
        anytime=anytime,
    )


def test_both_engines_give_the_same_results() -> None:
    host = HostRollouts(HostTargets(TARGETS, LENGTHS), ALGORITHM, InlinePool())
    found = adapted(host, "idaq-return")
    scanned = ScannedRollouts(fakes.Targets(TARGETS, LENGTHS), ALGORITHM)
    expected = adapted(scanned, "idaq-return")
    assert set(expected) - set(found) == {"observations", "valid"}
    for name, value in found.items():
        assert value.dtype == expected[name].dtype, name
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("algorithm", "method"),
    [
        (Macaw(tiny.MACAW, fakes.SPEC), "idaq-return"),
        (Borel(tiny.BOREL, fakes.SPEC), "belief"),
    ],
    ids=["adapted weights", "a belief that is carried"],
)
def test_both_engines_run_other_hypotheses_alike(algorithm: Algorithm, method: str) -> None:
    rng = np.random.default_rng(0)
    shapes = algorithm.agent_shapes(4)
    agents = jax.tree.map(lambda x: rng.uniform(0.05, 0.4, (1, *x.shape)).astype("f4"), shapes)
    agents.prior[..., -1] = 0.0  # no noise in MACAW's actions: the engines draw it differently
    adapter = make_adapter(method, CONFIG, algorithm)
    host = HostRollouts(HostTargets(TARGETS, LENGTHS), algorithm, InlinePool())
    scanned = ScannedRollouts(fakes.Targets(TARGETS, LENGTHS), algorithm)
    found, expected = (
        evaluate(each, adapter, agents, jnp.arange(3)[None], tiny.keys(0))
        for each in (host, scanned)
    )
    assert len(np.unique(found["returns"])) > 3
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)


def test_methods_share_the_reference_stage() -> None:
    """Three of five episodes are the same for both methods; each runs the other two itself."""
    pool = InlinePool()
    rollouts = HostRollouts(HostTargets(TARGETS, LENGTHS), ALGORITHM, pool)
    adapted(rollouts, "idaq-return", anytime=False)
    assert pool.num_episodes == 2 * 3 * 5
    adapted(rollouts, "posterior", anytime=False)
    assert pool.num_episodes == 2 * 3 * (5 + 2)
    adapted(rollouts, "idaq-return", anytime=False)
    assert pool.num_episodes == 2 * 3 * (5 + 2)
