"""The ensemble: independent models of reward and next observation."""

import jax
import jax.numpy as jnp
import numpy as np

from idaq.nets import dynamics
from tests import oracles
from tests.learners.setting import in_float64, shaken

ENSEMBLE = shaken(dynamics.init(jax.random.key(0), 3, 2, 1, (4,), 2), seed=0)
RNG = np.random.default_rng(0)
OBS, Z, ACTION = (jnp.asarray(RNG.normal(size=(5, n)), jnp.float32) for n in (2, 2, 1))


def test_every_model_predicts_by_itself() -> None:
    rewards, next_observations = dynamics.predict(ENSEMBLE, OBS, Z, ACTION)
    assert rewards.shape == (3, 5)
    assert next_observations.shape == (3, 5, 2)
    for index in range(3):
        reward, state = (
            jax.tree.map(lambda x, i=index: x[i], in_float64(part)) for part in ENSEMBLE
        )
        for row in range(5):
            inputs = [*np.asarray(OBS[row]), *np.asarray(Z[row]), *np.asarray(ACTION[row])]
            assert oracles.agree(rewards[index, row], oracles.mlp(reward, inputs)[0])
            assert oracles.agree(next_observations[index, row], oracles.mlp(state, inputs))


def test_models_start_different() -> None:
    fresh = dynamics.init(jax.random.key(0), 3, 2, 1, (4,), 2)
    for leaf in (fresh.reward[0]["weight"], fresh.dynamics[0]["weight"]):
        for i in range(3):
            for j in range(i):
                assert not np.array_equal(leaf[i], leaf[j])
