"""What every algorithm and learner keeps, with and without models."""

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq import checkpoint
from idaq.algos import make_algorithm
from idaq.algos.focal import Config, Focal
from idaq.config import from_dict, to_dict
from idaq.types import PyTree
from tests import tiny

KEY = jax.random.key(11)


@pytest.fixture(params=tiny.ALGORITHMS)
def algorithm(request: pytest.FixtureRequest) -> Focal:
    return tiny.ALGORITHMS[str(request.param)]


def kinds(tree: PyTree) -> list[tuple[Any, ...]]:
    """Place, shape, type and weakness of every leaf."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(jax.tree.map(jnp.asarray, tree))
    return [
        (jax.tree_util.keystr(place), x.shape, x.dtype, bool(x.weak_type)) for place, x in leaves
    ]


# --- Configuration --------------------------------------------------------------------------


def test_config_is_frozen_and_hashable(algorithm: Focal) -> None:
    twin = make_algorithm(replace(algorithm.config), algorithm.spec)
    assert twin == algorithm
    assert hash(twin) == hash(algorithm)
    with pytest.raises(FrozenInstanceError):
        algorithm.config.latent_dim = 7  # type: ignore[misc]
    other = replace(algorithm, config=replace(algorithm.config, latent_dim=7))
    assert other != algorithm


def test_config_survives_json(algorithm: Focal) -> None:
    text = json.dumps(to_dict(algorithm.config))
    assert from_dict(Config, json.loads(text)) == algorithm.config


def test_it_has_a_name_and_a_version(algorithm: Focal) -> None:
    assert algorithm.name
    assert isinstance(algorithm.version, int)
    assert algorithm.version >= 1


# --- Training -------------------------------------------------------------------------------


def test_state_keeps_its_structure_shapes_and_types(algorithm: Focal) -> None:
    """Weak types included: a state that changes kind compiles the program twice."""
    state = tiny.first_state(algorithm)
    after, _ = tiny.compiled_update(algorithm)(state, tiny.data(), KEY)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
    assert kinds(after) == kinds(state)


def test_update_is_deterministic_in_its_key(algorithm: Focal) -> None:
    update, state = tiny.compiled_update(algorithm), tiny.first_state(algorithm)
    first, again = (update(state, tiny.data(), KEY) for _ in range(2))
    other = update(state, tiny.data(), jax.random.key(12))
    assert tiny.same(first, again)
    assert not tiny.same(first[0].encoder, other[0].encoder)
    assert not tiny.same(first[0].learner.policy, other[0].learner.policy)


def test_init_is_deterministic_in_its_key(algorithm: Focal) -> None:
    first, again, other = (algorithm.init(tiny.data(), jax.random.key(k)) for k in (0, 0, 1))
    assert tiny.same(first, again)
    for name in ("encoder", "learner"):
        assert not tiny.same(getattr(first, name), getattr(other, name))


def test_every_network_learns(algorithm: Focal) -> None:
    before, after = tiny.first_state(algorithm), tiny.trained(algorithm, 2)
    parts = {
        "encoder": (before.encoder, after.encoder),
        "ensemble": (before.ensemble, after.ensemble),
    }
    learner_parts = ("policy", "q", "v", "target_v", "target_q", "target_policy")
    for name in learner_parts:
        if hasattr(before.learner, name):
            parts[name] = (getattr(before.learner, name), getattr(after.learner, name))
    for name, (old, new) in parts.items():
        for first, second in zip(tiny.leaves(old), tiny.leaves(new), strict=True):
            assert not np.array_equal(first, second), name
    assert tiny.same(before.normaliser, after.normaliser)


def test_other_data_compiles_nothing_new(algorithm: Focal) -> None:
    update = tiny.compiled_update(algorithm)
    state = tiny.trained(algorithm, 1)
    update(state, tiny.data(0), KEY)
    traces = update.traces
    other, _ = update(state, tiny.data(1), jax.random.key(99))
    update(other, tiny.data(2), KEY)
    assert update.traces == traces


def test_seeds_together_are_seeds_alone(algorithm: Focal) -> None:
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


def test_metrics_are_finite_numbers(algorithm: Focal) -> None:
    _, metrics = tiny.compiled_update(algorithm)(tiny.first_state(algorithm), tiny.data(), KEY)
    assert {"metric_loss", "policy_loss"} <= set(metrics)
    assert ("model_loss" in metrics) == (algorithm.config.ensemble is not None)
    for name, value in metrics.items():
        assert value.shape == (), name
        assert np.isfinite(value), name


# --- The agent ------------------------------------------------------------------------------


def test_agent_has_the_announced_shapes(algorithm: Focal) -> None:
    agent = tiny.agent(algorithm)
    shapes = algorithm.agent_shapes(len(tiny.TRAIN_TASKS))
    assert tiny.same_structure(shapes, agent)
    for shape, leaf in zip(jax.tree.leaves(shapes), jax.tree.leaves(agent), strict=True):
        assert (shape.shape, shape.dtype) == (leaf.shape, leaf.dtype)


def test_agent_survives_a_file_bit_for_bit(algorithm: Focal, tmp_path: Path) -> None:
    agent = tiny.agent(algorithm)
    file = tmp_path / "agent.safetensors"
    checkpoint.save(file, agent, {"seed": 0})
    loaded, header = checkpoint.load(file, algorithm.agent_shapes(len(tiny.TRAIN_TASKS)))
    assert tiny.same(loaded, agent)
    assert header["seed"] == 0
    episodes, keep = tiny.episodes(3), jnp.asarray([True, False, True])
    before, after = (algorithm.encode(x, episodes, keep) for x in (agent, loaded))
    np.testing.assert_array_equal(before, after)


def test_state_survives_a_file_bit_for_bit(algorithm: Focal, tmp_path: Path) -> None:
    state = tiny.trained(algorithm, 2)
    checkpoint.save(tmp_path / "state", state, {})
    loaded, _ = checkpoint.load(tmp_path / "state", tiny.first_state(algorithm))
    assert tiny.same(loaded, state)


def test_hypotheses_have_one_shape(algorithm: Focal) -> None:
    agent = tiny.agent(algorithm)
    prior = algorithm.prior(agent)
    inferred = algorithm.encode(agent, tiny.episodes(3), jnp.ones(3, bool))
    assert prior.shape == (len(tiny.TRAIN_TASKS), tiny.LATENT_DIM)
    assert inferred.shape == prior.shape[1:]
    assert inferred.dtype == prior.dtype
    assert np.isfinite(prior).all()


def test_actions_are_inside_the_bounds(algorithm: Focal) -> None:
    """Also for states and hypotheses far from anything seen."""
    agent = tiny.agent(algorithm)
    rng = np.random.default_rng(0)
    obs = jnp.asarray(1e3 * rng.normal(size=(200, tiny.SPEC.obs_dim)), jnp.float32)
    hypotheses = jnp.asarray(100.0 * rng.normal(size=(200, tiny.LATENT_DIM)), jnp.float32)
    carry = algorithm.init_carry(agent, hypotheses[0])
    action, after = jax.vmap(lambda z, o: algorithm.act(agent, z, carry, o, KEY))(hypotheses, obs)
    assert action.shape == (200, tiny.SPEC.action_dim)
    assert (action >= jnp.asarray(tiny.SPEC.action_low) - 1e-6).all()
    assert (action <= jnp.asarray(tiny.SPEC.action_high) + 1e-6).all()
    assert (action.max(axis=0) - action.min(axis=0) > 0.1).all()
    assert tiny.same_structure(after, carry)
    rewarded = algorithm.take_reward(agent, carry, jnp.asarray(1.0))
    assert tiny.same_structure(rewarded, carry)


def test_meta_test_actions_do_not_depend_on_the_key(algorithm: Focal) -> None:
    """Deterministic at meta-test time."""
    agent, z, obs = tiny.agent(algorithm), jnp.ones(tiny.LATENT_DIM), jnp.ones(tiny.SPEC.obs_dim)
    first, second = (algorithm.act(agent, z, (), obs, jax.random.key(k))[0] for k in (0, 1))
    np.testing.assert_array_equal(first, second)


def test_predictions_where_there_are_models(algorithm: Focal) -> None:
    if algorithm.config.ensemble is None:
        assert tiny.agent(algorithm).ensemble is None
        return
    episode = jax.tree.map(lambda x: x[0], tiny.episodes(1))
    seen = algorithm.predict(tiny.agent(algorithm), episode, jnp.zeros(tiny.LATENT_DIM))
    horizon, obs_dim = tiny.SPEC.horizon, tiny.SPEC.obs_dim
    assert seen.reward.shape == (horizon,)
    assert seen.next_obs.shape == (horizon, obs_dim)
    assert seen.rewards.shape == (2, horizon)
    assert seen.next_observations.shape == (2, horizon, obs_dim)
