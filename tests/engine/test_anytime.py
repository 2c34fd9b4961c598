"""The score of every shorter budget: what it is, and what it must not depend on."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.methods import make_adapter
from idaq.engine.meta_test import Results, evaluate
from idaq.engine.rollout import HostRollouts, Outcomes, Rollouts, ScannedRollouts
from idaq.settings import AdaptConfig
from idaq.types import AnyArray, Array, Episodes, Key, PyTree
from tests import fakes, tiny
from tests.host_fakes import (
    ACTION_DIM,
    HostTargets,
    InlinePool,
    Remembers,
    Walk,
    remembering_agents,
)

TARGETS = ((0.0, 0.0), (2.0, 1.0), (-3.0, 0.5))
LENGTHS = (3, 2, 1)
FAMILY = fakes.Targets(TARGETS, LENGTHS)
ALGORITHM = fakes.ActsAsBelieved()
PRIOR = [(1.0, 0.0), (-1.0, 2.0), (2.0, 1.0), (4.0, -1.0)]
BEST = AdaptConfig(
    num_reference_episodes=3,
    num_iterative_episodes=3,
    keep_percent=60.0,
    reference="farthest-first",
    final="best",
)
CONFIGS = {
    "best": BEST,
    "posterior": AdaptConfig(
        num_reference_episodes=3, num_iterative_episodes=3, keep_percent=40.0, iterate="untried"
    ),
    "repeated": AdaptConfig(
        num_reference_episodes=4,
        num_iterative_episodes=3,
        keep_percent=50.0,
        episodes_per_hypothesis=2,
    ),
}
METHODS = ("idaq-return", "idaq-prediction-error", "posterior", "posterior-zero", "expert-context")


def run(
    method: str,
    config: AdaptConfig = BEST,
    rollouts: Rollouts | None = None,
    seeds: tuple[int, ...] = (0, 1),
    *,
    anytime: bool = True,
) -> Results:
    agents = [fakes.agent(np.asarray(PRIOR) + seed) for seed in seeds]
    logged = fakes.episode(jnp.ones(2), jnp.zeros(2), jnp.asarray(3), jnp.zeros(fakes.HORIZON))
    lead = (len(seeds), len(TARGETS), 1)
    given = jax.tree.map(lambda x: jnp.broadcast_to(x, (*lead, *x.shape)), logged)
    return evaluate(
        rollouts or ScannedRollouts(FAMILY, ALGORITHM),
        make_adapter(method, config, ALGORITHM),
        jax.tree.map(lambda *x: jnp.stack(x), *agents),
        jnp.tile(jnp.arange(3), (len(seeds), 1)),
        tiny.keys(*seeds),
        given if method == "expert-context" else None,
        anytime=anytime,
    )


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> AdaptConfig:
    return CONFIGS[request.param]


@pytest.mark.parametrize("method", METHODS)
def test_the_last_point_is_the_score(method: str, config: AdaptConfig) -> None:
    found = run(method, config)
    for name in ("returns", "success", "hypotheses"):
        points = found[f"anytime_{name}"]
        assert points.shape == found[name].shape
        assert points.dtype == found[name].dtype
        np.testing.assert_array_equal(points[:, :, -1], found[name][:, :, -1])


@pytest.mark.parametrize("method", METHODS)
def test_the_first_point_is_what_is_tried_first(method: str, config: AdaptConfig) -> None:
    found = run(method, config)
    for name in ("hypotheses", "returns", "success"):  # of an environment without noise
        np.testing.assert_array_equal(found[f"anytime_{name}"][:, :, 0], found[name][:, :, 0])


def test_points_are_episodes_of_the_committed_hypotheses(config: AdaptConfig) -> None:
    found = run("idaq-return", config)
    distance = np.linalg.norm(found["anytime_hypotheses"] - np.asarray(TARGETS)[:, None], axis=-1)
    expected = -distance * np.asarray(LENGTHS)[:, None]
    np.testing.assert_allclose(found["anytime_returns"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["anytime_success"], distance < 0.5)


def test_the_best_so_far_only_gets_better() -> None:
    """Where the environment has no noise; and it is the best of what was tried."""
    found = run("idaq-return")
    best = np.maximum.accumulate(found["returns"], axis=2)[:, :, :-1]
    np.testing.assert_allclose(found["anytime_returns"][:, :, 1:], best, rtol=1e-6)
    assert (best[:, :, -1] > best[:, :, 0]).any()


def test_posterior_believes_all_so_far(config: AdaptConfig) -> None:
    found = run("posterior", config)
    tried = found["hypotheses"].astype(np.float64)
    for seen in range(1, config.num_episodes):
        mean = tried[:, :, :seen].mean(axis=2)
        points = found["anytime_hypotheses"][:, :, seen]
        np.testing.assert_allclose(points, mean, rtol=1e-5, atol=1e-6)


class Poisons:
    """Rollouts whose episodes are worthless, but for the first few of the budget."""

    def __init__(self, rollouts: Rollouts, first: int) -> None:
        self.family, self.rollouts, self.first, self.count = rollouts.family, rollouts, first, 0

    def run(self, agents: PyTree, hypotheses: Any, tasks: Array, keys: Key) -> Episodes:
        episodes = self.rollouts.run(agents, hypotheses, tasks, keys)
        self.count += 1
        if self.count <= self.first:
            return episodes
        return episodes._replace(reward=episodes.reward - 1e3, action=-7.0 * episodes.action)

    def outcomes(self, agents: PyTree, hypotheses: AnyArray, tasks: Array, keys: Key) -> Outcomes:
        return self.rollouts.outcomes(agents, hypotheses, tasks, keys)


@pytest.mark.parametrize("method", METHODS[:-1])
def test_no_point_knows_later_episodes(method: str, config: AdaptConfig) -> None:
    clean, num = run(method, config), config.num_episodes
    for first in range(num - 1):
        rollouts = Poisons(ScannedRollouts(FAMILY, ALGORITHM), first)
        poisoned = run(method, config, rollouts)
        assert rollouts.count == num
        for name in ("anytime_returns", "anytime_success", "anytime_hypotheses"):
            points = slice(0, first + 1)  # which saw `first` episodes or fewer
            np.testing.assert_array_equal(poisoned[name][:, :, points], clean[name][:, :, points])


def test_the_budget_is_what_it_was() -> None:
    """The further episodes change nothing that was there before, and can be left out."""
    found, without = run("idaq-return"), run("idaq-return", anytime=False)
    assert {name for name in found if name not in without} == {
        "anytime_returns",
        "anytime_success",
        "anytime_hypotheses",
    }
    for name, value in without.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)


def test_no_further_programs_are_compiled() -> None:
    compiled: list[str] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    run("posterior", anytime=False)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        run("posterior")
        assert compiled == []
        jax.jit(lambda x: x * 7.25)(1.0)  # what is new is noticed
        assert len(compiled) == 1
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_equal_seeds_are_equal_and_seeds_alone_are_the_same() -> None:
    twice, alone = run("idaq-return", seeds=(1, 1)), run("idaq-return", seeds=(1,))
    for name in ("anytime_returns", "anytime_hypotheses"):
        np.testing.assert_array_equal(twice[name][0], twice[name][1])
        np.testing.assert_allclose(twice[name][0], alone[name][0], rtol=1e-6)


# --- Simulators ------------------------------------------------------------------------------


def distinct(names: AnyArray) -> int:
    """How many different hypotheses each seed and task has, added up; [seeds, tasks, n, dim]."""
    return sum(len({row.tobytes() for row in task}) for seed in np.asarray(names) for task in seed)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_costs_one_more_episode_per_distinct_hypothesis(
    method: str, config: AdaptConfig
) -> None:
    """The final one is among them, and belongs to the budget."""
    pool = InlinePool()
    rollouts = HostRollouts(HostTargets(TARGETS, LENGTHS), ALGORITHM, pool)
    found = run(method, config, rollouts)
    extra = distinct(found["anytime_hypotheses"]) - 2 * 3
    assert pool.num_episodes == found["returns"].size + extra
    if method == "idaq-return":
        assert 0 < extra < found["returns"].size - 2 * 3
    run(method, config, rollouts)
    assert pool.num_episodes == found["returns"].size + extra


def test_both_engines_give_the_same_points(config: AdaptConfig) -> None:
    host = HostRollouts(HostTargets(TARGETS, LENGTHS), ALGORITHM, InlinePool(3))
    found, expected = run("idaq-return", config, host), run("idaq-return", config)
    for name in ("anytime_returns", "anytime_success", "anytime_hypotheses"):
        assert found[name].dtype == expected[name].dtype
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5)


NUM_AGENTS, NUM_TASKS, NUM = 2, 7, 4


def work(num: int = NUM) -> dict[str, Any]:
    """Several hypotheses per task; the last two are the same."""
    shape = (NUM_AGENTS, num, NUM_TASKS, ACTION_DIM)
    hypotheses = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    hypotheses[:, -1] = hypotheses[:, -2]
    return {
        "agents": remembering_agents(NUM_AGENTS),
        "hypotheses": hypotheses,
        "tasks": np.tile(np.arange(NUM_TASKS), (NUM_AGENTS, 1)),
        "keys": jax.random.split(jax.random.key(3), (NUM_AGENTS, NUM_TASKS)),
    }


@pytest.mark.parametrize("num_workers", [1, 3, 50])
def test_outcomes_are_those_of_the_episodes_bit_for_bit(num_workers: int) -> None:
    """However they are cut into units; a policy with a memory, and noise from the key."""
    given, pool = work(), InlinePool(num_workers)
    rollouts = HostRollouts(Walk(num_tasks=NUM_TASKS), Remembers(), pool)
    found = rollouts.outcomes(**given)
    assert pool.num_episodes == NUM_AGENTS * NUM_TASKS * (NUM - 1)  # duplicates run once
    alone = HostRollouts(Walk(num_tasks=NUM_TASKS), Remembers(), InlinePool())
    for place in range(NUM):
        one = given | {"hypotheses": given["hypotheses"][:, place]}
        expected = Outcomes.of(alone.run(**one))
        np.testing.assert_array_equal(found.returns[:, place], expected.returns)
        np.testing.assert_array_equal(found.success[:, place], expected.success)
    assert len(np.unique(found.returns)) == NUM_AGENTS * NUM_TASKS * (NUM - 1)


def test_what_was_run_is_not_run_again_and_outcomes_keep_no_episodes() -> None:
    given, pool = work(), InlinePool()
    rollouts = HostRollouts(Walk(num_tasks=NUM_TASKS), Remembers(), pool)
    rollouts.run(**(given | {"hypotheses": given["hypotheses"][:, 1]}))
    once = rollouts.outcomes(**given)
    assert pool.num_episodes == NUM_AGENTS * NUM_TASKS * (NUM - 1)
    again = rollouts.outcomes(**given)
    assert pool.num_episodes == NUM_AGENTS * NUM_TASKS * (NUM - 1)
    assert tiny.same(once, again)
    assert len(rollouts._known) == NUM_AGENTS * NUM_TASKS
    whole = rollouts.run(**(given | {"hypotheses": given["hypotheses"][:, 0]}))
    np.testing.assert_array_equal(Outcomes.of(whole).returns, once.returns[:, 0])
