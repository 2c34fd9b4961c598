"""What IDAQ would commit to after every episode, had the budget ended there."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.methods import make_adapter
from idaq.types import Episodes, PyTree
from tests import fakes, oracles
from tests.adapt.cases import CASES, OFFSETS, PRIORS, TARGETS, options, results
from tests.tiny import QUICK

PLACES = [(seed, task) for seed in range(len(PRIORS)) for task in range(len(TARGETS))]


@cache
def commitments(case: str) -> oracles.Floats:
    """What is committed before episode 0, 1, ... of a case, [seeds, tasks, episodes, 2]."""
    method, _, changes = CASES[case]
    adapter = make_adapter(method, options(**changes), fakes.ActsAsBelieved())
    found = results(case)

    def one_task(agent: PyTree, key: Any, target: Any, hypotheses: Any, rewards: Any) -> Any:
        def observe(state: PyTree, seen: tuple[Any, Any]) -> tuple[PyTree, Any]:
            hypothesis, reward = seen
            committed = adapter.commit(agent, state)
            nothing = jnp.zeros(fakes.HORIZON)
            episode: Episodes = fakes.episode(hypothesis, target, jnp.asarray(3), nothing)
            episode = episode._replace(reward=reward)
            return adapter.observe(agent, state, hypothesis, episode), committed

        return jax.lax.scan(observe, adapter.init(agent, key, None), (hypotheses, rewards))[1]

    over_tasks = jax.vmap(one_task, in_axes=(None, 0, 0, 0, 0))
    agents = [fakes.agent(prior, OFFSETS) for prior in PRIORS]
    program = jax.jit(jax.vmap(over_tasks, in_axes=(0, 0, None, 0, 0)), compiler_options=QUICK)
    return np.asarray(
        program(
            jax.tree.map(lambda *x: jnp.stack(x), *agents),
            jnp.stack([jax.random.split(jax.random.key(s), len(TARGETS)) for s in range(3)]),
            np.asarray(TARGETS, np.float32),
            found["hypotheses"],
            found["rewards"],
        ),
        np.float64,
    )


def expected(case: str, seed: int, task: int, seen: int, **changes: Any) -> oracles.Floats:
    """The same from the definition, from nothing but the first `seen` episodes."""
    config, found = options(**CASES[case][2] | changes), results(case)
    num_reference, repeats = config.num_reference_episodes, config.episodes_per_hypothesis
    hypotheses = found["hypotheses"][seed, task].astype(np.float64)
    judged = [
        start
        for start in range(0, config.num_episodes - 1, repeats)  # the stages are whole groups
        if start + repeats <= seen
    ]
    values = [float(found["uncertainty"][seed, task, start]) for start in judged]
    if not judged:
        return np.asarray(hypotheses[0])
    if config.final == "best":
        return np.asarray(hypotheses[judged[values.index(min(values))]])
    if seen < num_reference:
        threshold = oracles.quantile_threshold(values, int(config.keep_percent))
        kept = [
            hypotheses[s] for s, value in zip(judged, values, strict=True) if value <= threshold
        ]
    else:
        kept = [hypotheses[start] for start in judged if found["kept"][seed, task, start]]
    return np.asarray(np.mean(kept, axis=0))


def agrees(case: str, seed: int, task: int, **changes: Any) -> bool:
    found = commitments(case)[seed, task]
    all_expected = [expected(case, seed, task, k, **changes) for k in range(len(found))]
    return oracles.agree(found, np.stack(all_expected))


@pytest.mark.parametrize("case", CASES)
def test_every_commitment(case: str) -> None:
    for seed, task in PLACES:
        assert agrees(case, seed, task), f"seed {seed}, task {task}"


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("paper, half kept", {"keep_percent": 51}),
        ("paper", {"keep_percent": 34}),
        ("prediction error", {"final": "best"}),
        ("two episodes each", {"episodes_per_hypothesis": 1, "keep_percent": 25}),
        ("untried, best", {"final": "posterior"}),
    ],
)
def test_commitments_fail_under_a_mutated_constant(case: str, changes: dict[str, Any]) -> None:
    assert not all(agrees(case, seed, task, **changes) for seed, task in PLACES)


@pytest.mark.parametrize("case", CASES)
def test_the_last_commitment_is_the_final_episode(case: str) -> None:
    found = results(case)["hypotheses"][:, :, -1]
    np.testing.assert_allclose(commitments(case)[:, :, -1], found, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("final", ["posterior", "best"])
def test_uncertainties_that_are_no_numbers_leave_the_latest_hypothesis(final: Any) -> None:
    """While the reference stage lasts; at its end nothing was kept, which is no belief at all."""
    config = options(final=final)
    adapter = make_adapter("idaq-prediction-error", config, fakes.ActsAsBelieved())
    agent = fakes.agent(PRIORS[0], (float("nan"), 0.0, 1.0))
    state = adapter.init(agent, jax.random.key(0), None)
    latest = adapter.propose(agent, state)
    for count in range(config.num_reference_episodes):
        np.testing.assert_array_equal(adapter.commit(agent, state), latest, str(count))
        latest = adapter.propose(agent, state)
        episode = fakes.episode(latest, jnp.zeros(2), jnp.asarray(3), jnp.zeros(fakes.HORIZON))
        state = adapter.observe(agent, state, latest, episode)
    np.testing.assert_array_equal(adapter.commit(agent, state), [0.0, 0.0])


def test_an_episode_that_diverges_is_not_committed_to() -> None:
    """Its return is minus infinity; any other one is nearer to the logs."""
    config = options(keep_percent=50.0)
    adapter = make_adapter("idaq-return", config, fakes.ActsAsBelieved())
    agent = fakes.agent(PRIORS[0], OFFSETS)
    state = adapter.init(agent, jax.random.key(0), None)
    for noise in (-jnp.inf, 0.0):
        hypothesis = adapter.propose(agent, state)
        steps = jnp.full(fakes.HORIZON, noise)
        episode = fakes.episode(hypothesis, jnp.zeros(2), jnp.asarray(3), steps)
        state = adapter.observe(agent, state, hypothesis, episode)
    np.testing.assert_allclose(adapter.commit(agent, state), hypothesis, rtol=1e-6)
