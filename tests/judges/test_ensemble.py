"""The ensemble by itself: what it starts from, learns and says."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.config import from_dict, to_dict
from idaq.errors import IdaqError
from idaq.judges import ensemble
from idaq.judges.base import JUDGES, judge_of
from idaq.judges.ensemble import EnsembleConfig
from idaq.nets.operations import Operations
from idaq.types import Transition
from tests import oracles, tiny

SPEC, LATENT, NUM = tiny.SPEC, 2, 6
CONFIG = EnsembleConfig(size=3, hidden=(5,), learning_rate=1e-2)
KEY = jax.random.key(1)


def rows(seed: int = 0) -> Transition:
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(NUM, *shape)) for shape in ((SPEC.obs_dim,), (SPEC.action_dim,), ())]
    after = rng.normal(size=(NUM, SPEC.obs_dim))
    return Transition(*(jnp.asarray(x, jnp.float32) for x in (*parts, after, np.zeros(NUM))))


Z = jnp.asarray(np.random.default_rng(2).normal(size=(NUM, LATENT)), jnp.float32)


def predictions(params: Any, batch: Transition, z: Any) -> tuple[Any, Any]:
    """Rewards [L, n] and next observations [L, n, obs_dim], network by network."""
    models = [
        jax.tree.map(lambda x, m=model: np.asarray(x[m], np.float64), params) for model in range(3)
    ]
    inputs = [
        [*np.asarray(obs), *np.asarray(each_z), *np.asarray(action)]
        for obs, each_z, action in zip(batch.obs, np.asarray(z), batch.action, strict=True)
    ]
    rewards = [[oracles.mlp(model.reward, x)[0] for x in inputs] for model in models]
    return rewards, [[oracles.mlp(model.dynamics, x) for x in inputs] for model in models]


def test_models_differ_and_learn_towards_the_same_rows() -> None:
    before = ensemble.init(CONFIG, SPEC, LATENT, KEY)
    first, second = (jax.tree.map(lambda x, m=m: x[m], before.params) for m in (0, 1))
    assert not tiny.same(first, second)
    after, metrics = ensemble.update(CONFIG, before, rows(), Z, KEY)
    rewards, states = predictions(before.params, rows(), Z)
    happened = np.asarray(rows().reward), np.asarray(rows().next_obs)
    expected = oracles.model_loss(*happened, np.asarray(rewards), np.asarray(states))
    assert oracles.agree(metrics["model_loss"], expected)
    for old, new in zip(tiny.leaves(before.params), tiny.leaves(after.params), strict=True):
        assert 0 < np.abs(new - old).max() <= 1.01e-2, "a first step of Adam is the learning rate"
    assert ensemble.update(CONFIG, after, rows(), Z, KEY)[1]["model_loss"] < metrics["model_loss"]


def test_its_word_on_an_episode_is_what_happened_beside_what_was_expected() -> None:
    trained = ensemble.init(CONFIG, SPEC, LATENT, KEY)
    valid = jnp.asarray([True] * 4 + [False] * 2)
    said = ensemble.read(trained.params, rows(), valid, Z[0])
    rewards, states = predictions(trained.params, rows(), jnp.broadcast_to(Z[0], Z.shape))
    assert oracles.agree(said.rewards, rewards)
    assert oracles.agree(said.next_observations, states)
    np.testing.assert_array_equal(said.reward, rows().reward)
    np.testing.assert_array_equal(said.next_obs, rows().next_obs)
    np.testing.assert_array_equal(said.valid, valid)


def test_operations_are_those_of_all_models() -> None:
    inputs = SPEC.obs_dim + LATENT + SPEC.action_dim
    both = Operations(inputs, (5,), 1).train + Operations(inputs, (5,), SPEC.obs_dim).train
    assert ensemble.operations(CONFIG, SPEC, LATENT) == 3 * both


def test_it_is_the_judge_where_none_is_named() -> None:
    """As configurations were saved when there was no other."""
    assert judge_of(CONFIG) is JUDGES["ensemble"] is ensemble.ENTRY
    saved = to_dict(CONFIG)
    assert "kind" not in saved
    assert from_dict(EnsembleConfig, saved) == CONFIG


@pytest.mark.parametrize("size", [1, 0, 1_001])
def test_a_variance_needs_two(size: int) -> None:
    with pytest.raises(IdaqError, match=f"size is {size}"):
        EnsembleConfig(size=size)
