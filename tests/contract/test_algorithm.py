"""What every algorithm and learner keeps, with and without models."""

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.algos.base import Algorithm
from idaq.algos.context_based import ContextBased
from idaq.algos.data import TrainData, is_training_row
from idaq.algos.entries import make_algorithm, version_of
from idaq.config import from_dict, to_dict
from idaq.errors import IdaqError
from idaq.settings import AdaptConfig, RunConfig, TrainConfig
from idaq.storage import checkpoint
from idaq.types import PyTree
from tests import tiny

KEY = jax.random.key(11)


@pytest.fixture(params=tiny.EVERY)
def algorithm(request: pytest.FixtureRequest) -> Algorithm:
    return tiny.EVERY[str(request.param)]


def kinds(tree: PyTree) -> list[tuple[Any, ...]]:
    """Place, shape, type and weakness of every leaf."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(jax.tree.map(jnp.asarray, tree))
    return [
        (jax.tree_util.keystr(place), x.shape, x.dtype, bool(x.weak_type)) for place, x in leaves
    ]


# --- Configuration --------------------------------------------------------------------------


def test_config_is_frozen_and_hashable(algorithm: Algorithm) -> None:
    config: Any = algorithm.config
    twin = make_algorithm(replace(config), algorithm.spec)
    first = algorithm.phases[0][1]
    assert twin == first
    assert hash(twin) == hash(first)
    with pytest.raises(FrozenInstanceError):
        algorithm.config.std_floor = 7.0
    other = make_algorithm(replace(config, std_floor=7.0), algorithm.spec)
    assert other != first


def test_phases_begin_at_the_first_update_and_follow_one_another(algorithm: Algorithm) -> None:
    starts = [start for start, _ in algorithm.phases]
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert all(each.config == algorithm.config for _, each in algorithm.phases)
    assert algorithm in [each for _, each in algorithm.phases]


def test_config_survives_json(algorithm: Algorithm) -> None:
    text = json.dumps(to_dict(algorithm.config))
    assert from_dict(type(algorithm.config), json.loads(text)) == algorithm.config
    whole = RunConfig(algorithm=algorithm.config, train=TrainConfig(), adapt=AdaptConfig())
    assert from_dict(RunConfig, json.loads(json.dumps(to_dict(whole)))) == whole


def test_it_has_a_name_and_a_version(algorithm: Algorithm) -> None:
    assert algorithm.name
    assert version_of(algorithm.name) >= 1


# --- Training -------------------------------------------------------------------------------


def test_state_keeps_its_structure_shapes_and_types(algorithm: Algorithm) -> None:
    """Weak types included: a state that changes kind compiles the program twice."""
    state = tiny.first_state(algorithm)
    after, _ = tiny.compiled_update(algorithm)(state, tiny.data(), KEY)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
    assert kinds(after) == kinds(state)


def test_update_is_deterministic_in_its_key(algorithm: Algorithm) -> None:
    update, state = tiny.compiled_update(algorithm), tiny.first_state(algorithm)
    first, again = (update(state, tiny.data(), KEY) for _ in range(2))
    other = update(state, tiny.data(), jax.random.key(12))
    assert tiny.same(first, again)
    assert not tiny.same(first[0], other[0])
    if isinstance(algorithm, ContextBased):
        assert not tiny.same(first[0].encoder, other[0].encoder)
        assert not tiny.same(first[0].learner.policy, other[0].learner.policy)


def test_init_is_deterministic_in_its_key(algorithm: Algorithm) -> None:
    first, again, other = (algorithm.init(tiny.data(), jax.random.key(k)) for k in (0, 0, 1))
    assert tiny.same(first, again)
    assert not tiny.same(first, other)
    if isinstance(algorithm, ContextBased):
        for name in ("encoder", "learner"):
            assert not tiny.same(getattr(first, name), getattr(other, name))


def test_every_network_learns(algorithm: Algorithm) -> None:
    """The agent's networks and what trains them; some only in their phase."""
    before, after = tiny.first_state(algorithm), tiny.trained(algorithm, 2)
    fixed = ("normaliser", "returns", "prior", "logged_return")
    agents = [algorithm.finish(state, tiny.data()) for state in (before, after)]
    parts = {
        name: tuple(getattr(each, name) for each in agents)
        for name in agents[0]._fields
        if name not in fixed
    }
    learners = [getattr(each, "learner", None) for each in (before, after)]
    for name in ("policy", "q", "v", "target_v", "target_q", "target_policy"):
        if hasattr(learners[0], name):
            parts[f"learner.{name}"] = tuple(getattr(each, name) for each in learners)
    for name, (old, new) in parts.items():
        for first, second in zip(tiny.leaves(old), tiny.leaves(new), strict=True):
            assert not np.array_equal(first, second), name
    assert tiny.same(before.normaliser, after.normaliser)


def test_other_data_compiles_nothing_new(algorithm: Algorithm) -> None:
    update = tiny.compiled_update(algorithm)
    state = tiny.trained(algorithm, 1)
    update(state, tiny.data(0), KEY)
    traces = update.traces
    other, _ = update(state, tiny.data(1), jax.random.key(99))
    update(other, tiny.data(2), KEY)
    assert update.traces == traces


def test_seeds_together_are_seeds_alone(algorithm: Algorithm) -> None:
    update = tiny.compiled_update(algorithm)
    states = [tiny.first_state(algorithm, seed) for seed in (0, 1)]
    keys = tiny.keys(20, 21)
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    vmapped = jax.jit(jax.vmap(algorithm.update, in_axes=(0, None, 0)), compiler_options=tiny.QUICK)
    after, metrics = vmapped(together, tiny.data(), keys)
    for index in range(2):
        alone, alone_metrics = update(states[index], tiny.data(), keys[index])
        assert tiny.close(jax.tree.map(lambda x, i=index: x[i], after), alone)
        assert tiny.close(jax.tree.map(lambda x, i=index: x[i], metrics), alone_metrics)


def test_metrics_are_finite_numbers(algorithm: Algorithm) -> None:
    _, metrics = tiny.compiled_update(algorithm)(tiny.first_state(algorithm), tiny.data(), KEY)
    if isinstance(algorithm, ContextBased):
        assert {"metric_loss", "policy_loss"} <= set(metrics)
        assert ("model_loss" in metrics) == (algorithm.config.judge is not None)
    assert metrics
    for name, value in metrics.items():
        assert value.shape == (), name
        assert np.isfinite(value), name


# --- The agent ------------------------------------------------------------------------------


def test_agent_has_the_announced_shapes(algorithm: Algorithm) -> None:
    agent = tiny.agent(algorithm)
    shapes = algorithm.agent_shapes(len(tiny.TRAIN_TASKS))
    assert tiny.same_structure(shapes, agent)
    for shape, leaf in zip(jax.tree.leaves(shapes), jax.tree.leaves(agent), strict=True):
        assert (shape.shape, shape.dtype) == (leaf.shape, leaf.dtype)


def test_agent_survives_a_file_bit_for_bit(algorithm: Algorithm, tmp_path: Path) -> None:
    agent = tiny.agent(algorithm)
    file = tmp_path / "agent.safetensors"
    checkpoint.save(file, agent, {"seed": 0})
    loaded, header = checkpoint.load(file, algorithm.agent_shapes(len(tiny.TRAIN_TASKS)))
    assert tiny.same(loaded, agent)
    assert header["seed"] == 0
    episodes, keep = tiny.episodes(3), jnp.asarray([True, False, True])
    before, after = (algorithm.encode(x, episodes, keep) for x in (agent, loaded))
    np.testing.assert_array_equal(before, after)


def test_state_survives_a_file_bit_for_bit(algorithm: Algorithm, tmp_path: Path) -> None:
    state = tiny.trained(algorithm, 2)
    checkpoint.save(tmp_path / "state", state, {})
    loaded, _ = checkpoint.load(tmp_path / "state", tiny.first_state(algorithm))
    assert tiny.same(loaded, state)


def test_hypotheses_have_one_shape(algorithm: Algorithm) -> None:
    agent = tiny.agent(algorithm)
    prior = algorithm.prior(agent)
    inferred = algorithm.encode(agent, tiny.episodes(3), jnp.ones(3, bool))
    assert prior.shape[0] == len(tiny.TRAIN_TASKS)
    assert prior.ndim == 2
    if isinstance(algorithm, ContextBased):
        assert prior.shape[1] == tiny.LATENT_DIM
    assert inferred.shape == prior.shape[1:]
    assert inferred.dtype == prior.dtype
    assert np.isfinite(prior).all()


def test_actions_are_inside_the_bounds(algorithm: Algorithm) -> None:
    """Also for states and hypotheses far from anything seen."""
    agent = tiny.agent(algorithm)
    rng = np.random.default_rng(0)
    obs = jnp.asarray(1e3 * rng.normal(size=(200, tiny.SPEC.obs_dim)), jnp.float32)
    shape = (200, algorithm.prior(agent).shape[1])
    hypotheses = jnp.asarray(100.0 * rng.normal(size=shape), jnp.float32)
    carry = algorithm.init_carry(agent, hypotheses[0])

    def act(hypothesis: Any, obs: Any) -> Any:
        start = algorithm.init_carry(agent, hypothesis)
        return algorithm.act(agent, hypothesis, start, obs, KEY)

    action, after = jax.vmap(act)(hypotheses, obs)
    assert action.shape == (200, tiny.SPEC.action_dim)
    assert (action >= jnp.asarray(tiny.SPEC.action_low) - 1e-6).all()
    assert (action <= jnp.asarray(tiny.SPEC.action_high) + 1e-6).all()
    assert (action.max(axis=0) - action.min(axis=0) > 0.1).all()
    assert tiny.same_structure(after, carry)
    rewarded = algorithm.take_reward(agent, carry, jnp.asarray(1.0))
    assert tiny.same_structure(rewarded, carry)


def test_meta_test_actions_do_not_depend_on_the_key(algorithm: Algorithm) -> None:
    """Deterministic at meta-test time."""
    agent, obs = tiny.agent(algorithm), jnp.ones(tiny.SPEC.obs_dim)
    for hypothesis in algorithm.prior(agent)[:2]:
        carry = algorithm.init_carry(agent, hypothesis)
        first, second = (
            algorithm.act(agent, hypothesis, carry, obs, jax.random.key(k))[0] for k in (0, 1)
        )
        np.testing.assert_array_equal(first, second)


def test_a_hypothesis_decides_the_actions(algorithm: Algorithm) -> None:
    agent, obs = tiny.agent(algorithm), jnp.ones(tiny.SPEC.obs_dim)
    prior = algorithm.prior(agent)
    carries = [algorithm.init_carry(agent, each) for each in prior]
    actions = [
        algorithm.act(agent, each, carry, obs, KEY)[0]
        for each, carry in zip(prior, carries, strict=True)
    ]
    assert not np.allclose(actions[0], actions[1], atol=0.0, rtol=0.0)


def test_rows_of_other_tasks_leave_no_trace(algorithm: Algorithm) -> None:
    """Neither in the state nor in the agent, and their reward functions are not asked."""
    data = tiny.data()
    own = np.asarray(is_training_row(data))

    def spoiled(x: Any) -> Any:
        return jnp.where(own.reshape(-1, *[1] * (x.ndim - 1)), x, jnp.nan)

    def no_test_task(task: Any, obs: Any, action: Any, next_obs: Any) -> Any:
        is_train = (task == jnp.asarray(tiny.TRAIN_TASKS)).any()
        return jnp.where(is_train, tiny.reward_of(task, obs, action, next_obs), jnp.nan)

    other: TrainData = data.replaced(
        rows=jax.tree.map(spoiled, data.rows), return_to_go=spoiled(data.return_to_go)
    )
    assert not np.isfinite(other.rows.reward).all()
    state = algorithm.init(other, jax.random.key(0))
    assert tiny.same(state, tiny.first_state(algorithm))
    after = tiny.trained(algorithm, 2, on=other)
    assert tiny.same(after, tiny.trained(algorithm, 2))
    assert tiny.same(algorithm.finish(after, other), tiny.agent(algorithm))
    if getattr(algorithm.config, "relabel", False):
        oracle = jax.tree_util.Partial(no_test_task)  # type: ignore[no-untyped-call]
        relabelled, _ = jax.jit(algorithm.update, compiler_options=tiny.QUICK)(
            state, other.replaced(reward_of=oracle), KEY
        )
        assert all(np.isfinite(leaf).all() for leaf in tiny.leaves(relabelled))


def test_predictions_where_there_are_models(algorithm: Algorithm) -> None:
    agent, episode = tiny.agent(algorithm), jax.tree.map(lambda x: x[0], tiny.episodes(1))
    hypothesis = algorithm.prior(agent)[0]
    if getattr(algorithm.config, "judge", None) is None:
        with pytest.raises(IdaqError, match="judges"):
            algorithm.read(agent, episode, hypothesis)
        return
    seen = algorithm.read(agent, episode, hypothesis)
    horizon, obs_dim = tiny.SPEC.horizon, tiny.SPEC.obs_dim
    assert seen.reward.shape == (horizon,)
    assert seen.next_obs.shape == (horizon, obs_dim)
    assert seen.rewards.shape == (2, horizon)
    assert seen.next_observations.shape == (2, horizon, obs_dim)
