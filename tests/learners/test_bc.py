"""The cloning learner: one whole update against loops, finite differences and Adam by hand."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from idaq.learners import bc
from idaq.learners.bc import BcConfig, BcState
from tests import oracles
from tests.learners.setting import LATENT_DIM, SPEC, batches, in_float64, moved_alike, shaken
from tests.tiny import QUICK, close

CONFIG = BcConfig(hidden=(4,), learning_rate=1e-2, dropout=0.0, average_rate=0.25)
KEY = jax.random.key(5)
RUN = jax.jit(bc.update, static_argnums=0, compiler_options=QUICK)
ROWS, Z = batches(1)


@pytest.fixture(scope="module")
def state() -> BcState:
    fresh = bc.init(CONFIG, SPEC, LATENT_DIM, jax.random.key(0))
    return fresh._replace(policy=shaken(fresh.policy, 0), average=shaken(fresh.average, 1))


def loss_oracle(values: oracles.Floats, like: oracles.Layers) -> float:
    """Mean squared distance of tanh(network(s, z)) to the logged action."""
    network = oracles.unflatten(values, like)
    total = 0.0
    inputs = np.concatenate([ROWS.obs[0], Z], axis=-1).astype(np.float64)
    for row, action in zip(inputs.tolist(), np.asarray(ROWS.action[0], np.float64), strict=True):
        total += float(np.square(np.tanh(oracles.mlp(network, row)) - action).sum())
    return total / int(ROWS.action[0].size)


def test_a_step_of_adam_on_the_distance_to_the_logged_actions(state: BcState) -> None:
    after, metrics = RUN(CONFIG, state, ROWS, Z, KEY)
    like = in_float64(state.policy)
    values = oracles.flatten(like)
    assert oracles.agree(metrics["policy_loss"], loss_oracle(values, like))
    gradient = oracles.numerical_gradient(lambda x: loss_oracle(x, like), values)
    expected = oracles.Adam(values.size, 1e-2).step(values, gradient)
    assert moved_alike(after.policy, oracles.unflatten(expected, like), gradient, 1e-2)
    for new, old, average in zip(
        *(jax.tree.leaves(x) for x in (after.policy, state.average, after.average)), strict=True
    ):
        np.testing.assert_allclose(average, 0.25 * new + 0.75 * old, rtol=1e-5, atol=1e-6)


def test_dropout_is_drawn_from_the_key(state: BcState) -> None:
    config = replace(CONFIG, dropout=0.5)
    first, again, other = (
        RUN(config, state, ROWS, Z, jax.random.key(k))[0].policy for k in (0, 0, 1)
    )
    plain = RUN(CONFIG, state, ROWS, Z, jax.random.key(0))[0].policy
    assert close(first, again, rtol=0.0, atol=0.0)
    assert not close(first, other, rtol=1e-5, atol=1e-6)
    assert not close(first, plain, rtol=1e-5, atol=1e-6)


def test_rewards_and_next_states_do_not_matter(state: BcState) -> None:
    changed = ROWS._replace(
        reward=ROWS.reward + 1.0,
        next_obs=ROWS.next_obs * 2.0,
        terminated=1.0 - ROWS.terminated,
    )
    plain, other = (RUN(CONFIG, state, rows, Z, KEY)[0] for rows in (ROWS, changed))
    assert close(plain, other, rtol=0.0, atol=0.0)


def test_the_agent_takes_the_average_along(state: BcState) -> None:
    assert bc.trained_policy(CONFIG, state) is state.average
