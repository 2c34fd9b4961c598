"""The default learner: one whole update against loops, finite differences and Adam by hand."""

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from idaq.learners import td3_bc
from idaq.learners.td3_bc import Td3BcConfig, Td3BcState
from idaq.nets import critic
from idaq.types import Transition
from tests import oracles
from tests.learners.setting import (
    LATENT_DIM,
    NUM_ROWS,
    SPEC,
    batches,
    in_float64,
    moved_alike,
    rows_of,
    shaken,
)
from tests.tiny import QUICK

CONFIG = Td3BcConfig(
    hidden=(4,),
    learning_rate=1e-2,
    discount=0.9,
    target_rate=0.25,
    bc_weight=0.7,
    target_noise=0.4,
    target_noise_max=0.5,
)
KEY = jax.random.key(5)
CONSTANTS = {"discount": 0.9, "noise_scale": 0.4, "noise_max": 0.5}


class Update(NamedTuple):
    """An update, and what the oracles need to follow it."""

    before: Td3BcState
    after: Td3BcState
    metrics: dict[str, Any]
    batch: Transition
    z: Any
    rows: oracles.Rows
    noise: oracles.Floats


@pytest.fixture(scope="module")
def update() -> Update:
    state = td3_bc.init(CONFIG, SPEC, LATENT_DIM, jax.random.key(0))
    moved = {name: shaken(getattr(state, name), i) for i, name in enumerate(Td3BcState._fields[:4])}
    batch, z = batches(1)
    state = state._replace(**moved)
    # values of both signs, or the policy's loss would not depend on their size
    first_q, second_q = state.q
    value = critic.q_value(first_q, batch.obs[0], z, td3_bc.act(state.policy, batch.obs[0], z))
    last = first_q[-1] | {"bias": first_q[-1]["bias"] - value.mean() - 0.1}
    state = state._replace(q=([*first_q[:-1], last], second_q))
    compiled = jax.jit(td3_bc.update, static_argnums=0, compiler_options=QUICK)
    after, metrics = compiled(CONFIG, state, batch, z, KEY)
    noise = np.asarray(jax.random.normal(KEY, (NUM_ROWS, SPEC.action_dim)), np.float64)
    assert (0.4 * np.abs(noise) > 0.5).any()  # the bound of the noise is met
    assert min(value - value.mean()) < 0.0 < max(value - value.mean())
    return Update(state, after, metrics, batch, z, rows_of(batch, z, 0), noise)


def q_loss(update: Update, **constants: float) -> float:
    before = in_float64(update.before)
    return oracles.td3_q_loss(
        before.q,
        before.target_q,
        before.target_policy,
        update.rows,
        update.noise,
        **(CONSTANTS | constants),
    )


def policy_loss(update: Update, bc_weight: float = 0.7) -> float:
    before, after = in_float64(update.before), in_float64(update.after)
    values, actions = oracles.td3_policy_terms(before.policy, after.q[0], update.rows)
    return oracles.td3_bc_policy_loss(values, actions, update.rows.action, bc_weight=bc_weight)


def test_q_loss(update: Update) -> None:
    assert oracles.agree(update.metrics["q_loss"], q_loss(update))


@pytest.mark.parametrize(
    "constants", [{"discount": 0.901}, {"noise_scale": 0.3}, {"noise_max": 0.51}]
)
def test_q_loss_fails_under_a_mutated_constant(update: Update, constants: dict[str, float]) -> None:
    assert not oracles.agree(update.metrics["q_loss"], q_loss(update, **constants))


def test_policy_loss(update: Update) -> None:
    assert oracles.agree(update.metrics["policy_loss"], policy_loss(update))


def test_policy_loss_fails_under_a_mutated_constant(update: Update) -> None:
    assert not oracles.agree(update.metrics["policy_loss"], policy_loss(update, bc_weight=0.71))


def test_critics_take_an_adam_step_on_their_own_loss(update: Update) -> None:
    before = in_float64(update.before)
    for index in range(2):

        def loss(values: oracles.Floats, index: int = index) -> float:
            return oracles.td3_q_loss(
                [oracles.unflatten(values, before.q[index])],
                before.target_q,
                before.target_policy,
                update.rows,
                update.noise,
                **CONSTANTS,
            )

        values = oracles.flatten(before.q[index])
        gradient = oracles.numerical_gradient(loss, values)
        expected = oracles.Adam(values.size, CONFIG.learning_rate).step(values, gradient)
        network = oracles.unflatten(expected, before.q[index])
        assert moved_alike(update.after.q[index], network, gradient, CONFIG.learning_rate)


def test_policy_takes_an_adam_step_on_its_own_loss(update: Update) -> None:
    before, after = in_float64(update.before), in_float64(update.after)
    start, _ = oracles.td3_policy_terms(before.policy, after.q[0], update.rows)
    size = sum(abs(value) for value in start) / len(start)  # a constant to the gradient

    def loss(values: oracles.Floats) -> float:
        policy = oracles.unflatten(values, before.policy)
        q, actions = oracles.td3_policy_terms(policy, after.q[0], update.rows)
        square = ((actions - update.rows.action) ** 2).mean()
        return float(-sum(q) / len(q) / size + 0.7 * square)

    values = oracles.flatten(before.policy)
    gradient = oracles.numerical_gradient(loss, values)
    expected = oracles.Adam(values.size, CONFIG.learning_rate).step(values, gradient)
    network = oracles.unflatten(expected, before.policy)
    assert moved_alike(update.after.policy, network, gradient, CONFIG.learning_rate)


def test_targets_follow_slowly(update: Update) -> None:
    before, after = in_float64(update.before), in_float64(update.after)
    pairs = [
        (before.target_policy, after.policy, after.target_policy),
        *zip(before.target_q, after.q, after.target_q, strict=True),
    ]
    for old, learned, target in pairs:
        followed = 0.75 * oracles.flatten(old) + 0.25 * oracles.flatten(learned)
        assert oracles.agree(oracles.flatten(target), followed)


def test_targets_start_as_copies() -> None:
    state = td3_bc.init(CONFIG, SPEC, LATENT_DIM, jax.random.key(0))
    for copy, original in ((state.target_policy, state.policy), (state.target_q, state.q)):
        for a, b in zip(jax.tree.leaves(copy), jax.tree.leaves(original), strict=True):
            np.testing.assert_array_equal(a, b)


def test_meta_test_action_is_tanh_of_the_output(update: Update) -> None:
    policy = in_float64(update.before.policy)
    action = td3_bc.act(update.before.policy, update.batch.obs[0], update.z)
    for i in range(NUM_ROWS):
        expected = np.tanh(oracles.mlp(policy, [*update.rows.obs[i], *update.rows.z[i]]))
        assert oracles.agree(action[i], expected)
