"""The paper's learner: one whole update against loops, finite differences and Adam by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.learners import sac_brac
from idaq.learners.sac_brac import SacBracConfig, SacBracState
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

# regularisers and learning rates are large, so that each one shows
CONFIG = SacBracConfig(
    hidden=(4,),
    learning_rate=1e-2,
    dual_learning_rate=1e-2,
    discount=0.9,
    reward_scale=3.0,
    target_rate=0.25,
    alpha_init=2.0,
    mean_regulariser=0.3,
    log_std_regulariser=0.2,
)
KEY = jax.random.key(5)

compiled = jax.jit(sac_brac.update, static_argnums=0, compiler_options=QUICK)


def start(config: SacBracConfig) -> SacBracState:
    state = sac_brac.init(config, SPEC, LATENT_DIM, jax.random.key(0))
    names = ("policy", "q", "v", "target_v", "dual")
    moved = {name: shaken(getattr(state, name), i) for i, name in enumerate(names)}
    return state._replace(**moved)


class Update(NamedTuple):
    """An update, and what the oracles need to follow it."""

    before: SacBracState
    after: SacBracState
    metrics: dict[str, Any]
    batch: Transition
    z: Any
    rows: oracles.Rows  # the first batch
    noise: oracles.Floats  # of the policy on the first batch


def run_update(config: SacBracConfig, alpha: float | None = None) -> Update:
    state = start(config)
    if alpha is not None:
        state = state._replace(alpha=jnp.asarray(alpha, jnp.float32))
    batch, z = batches(sac_brac.num_batches(config))
    after, metrics = compiled(config, state, batch, z, KEY)
    policy_key, _ = jax.random.split(KEY)
    noise = jax.random.normal(policy_key, (NUM_ROWS, SPEC.action_dim))
    return Update(
        state, after, metrics, batch, z, rows_of(batch, z, 0), np.asarray(noise, np.float64)
    )


@pytest.fixture(scope="module")
def update() -> Update:
    return run_update(CONFIG)


def q_loss(update: Update, **constants: float) -> float:
    before = in_float64(update.before)
    constants = {"discount": 0.9, "reward_scale": 3.0} | constants
    return oracles.q_loss(before.q, before.target_v, update.rows, **constants)


def policy_loss(update: Update, alpha: float = 2.0, **constants: float) -> float:
    before, after = in_float64(update.before), in_float64(update.after)
    constants = {"mean_regulariser": 0.3, "log_std_regulariser": 0.2} | constants
    return oracles.policy_loss(
        before.policy, after.q, before.dual, alpha, update.rows, update.noise, **constants
    )


def v_loss(update: Update, **constants: float) -> float:
    before, after = in_float64(update.before), in_float64(update.after)
    return oracles.v_loss(before.v, before.policy, after.q, update.rows, update.noise, **constants)


Oracle = Callable[..., float]
ORACLES: dict[str, Oracle] = {"q_loss": q_loss, "policy_loss": policy_loss, "v_loss": v_loss}


@pytest.mark.parametrize("name", ORACLES)
def test_losses(update: Update, name: str) -> None:
    assert oracles.agree(update.metrics[name], ORACLES[name](update))


@pytest.mark.parametrize(
    ("name", "constant", "value"),
    [
        ("q_loss", "discount", 0.901),
        ("q_loss", "reward_scale", 3.01),
        ("policy_loss", "alpha", 2.01),
        ("policy_loss", "entropy_weight", 1.01),
        ("policy_loss", "mean_regulariser", 0.301),
        ("policy_loss", "log_std_regulariser", 0.201),
        ("policy_loss", "log_std_max", 0.1),
        ("v_loss", "entropy_weight", 1.01),
    ],
)
def test_losses_fail_under_a_mutated_constant(
    update: Update, name: str, constant: str, value: float
) -> None:
    assert not oracles.agree(update.metrics[name], ORACLES[name](update, **{constant: value}))


def test_entropy_is_minus_the_mean_log_density(update: Update) -> None:
    policy = in_float64(update.before.policy)
    total = 0.0
    for i in range(NUM_ROWS):
        total += oracles.draw(
            policy, update.rows.obs[i], update.rows.z[i], update.noise[i]
        ).log_prob
    assert oracles.agree(update.metrics["entropy"], -total / NUM_ROWS)


def test_critics_take_an_adam_step_on_their_own_loss(update: Update) -> None:
    before = in_float64(update.before)
    for index in range(2):

        def loss(values: oracles.Floats, index: int = index) -> float:
            network = oracles.unflatten(values, before.q[index])
            return oracles.q_loss(
                [network], before.target_v, update.rows, discount=0.9, reward_scale=3.0
            )

        values = oracles.flatten(before.q[index])
        gradient = oracles.numerical_gradient(loss, values)
        expected = oracles.Adam(values.size, CONFIG.learning_rate).step(values, gradient)
        network = oracles.unflatten(expected, before.q[index])
        assert moved_alike(update.after.q[index], network, gradient, CONFIG.learning_rate)


def test_policy_takes_an_adam_step_on_its_own_loss(update: Update) -> None:
    before, after = in_float64(update.before), in_float64(update.after)

    def loss(values: oracles.Floats) -> float:
        return oracles.policy_loss(
            oracles.unflatten(values, before.policy),
            after.q,  # the critics as they are after their step
            before.dual,  # the dual critic as it is before its own
            2.0,
            update.rows,
            update.noise,
            mean_regulariser=0.3,
            log_std_regulariser=0.2,
        )

    values = oracles.flatten(before.policy)
    gradient = oracles.numerical_gradient(loss, values)
    expected = oracles.Adam(values.size, CONFIG.learning_rate).step(values, gradient)
    network = oracles.unflatten(expected, before.policy)
    assert moved_alike(update.after.policy, network, gradient, CONFIG.learning_rate)


def test_v_takes_an_adam_step_and_its_target_follows(update: Update) -> None:
    before, after = in_float64(update.before), in_float64(update.after)

    def loss(values: oracles.Floats) -> float:
        network = oracles.unflatten(values, before.v)
        return oracles.v_loss(network, before.policy, after.q, update.rows, update.noise)

    values = oracles.flatten(before.v)
    gradient = oracles.numerical_gradient(loss, values)
    expected = oracles.Adam(values.size, CONFIG.learning_rate).step(values, gradient)
    network = oracles.unflatten(expected, before.v)
    assert moved_alike(update.after.v, network, gradient, CONFIG.learning_rate)

    followed = 0.75 * oracles.flatten(before.target_v) + 0.25 * oracles.flatten(after.v)
    assert oracles.agree(oracles.flatten(after.target_v), followed)


def dual_by_hand(
    update: Update, penalty_weight: float = 5.0
) -> tuple[oracles.Layers, oracles.Floats, list[float]]:
    """The dual critic after its three steps, the last gradient, and the loss of each step."""
    before = in_float64(update.before)
    _, dual_key = jax.random.split(KEY)
    values = oracles.flatten(before.dual)
    adam = oracles.Adam(values.size, CONFIG.dual_learning_rate)
    gradient, losses = np.zeros_like(values), []
    for step, step_key in enumerate(jax.random.split(dual_key, 3)):
        action_key, between_key = jax.random.split(step_key)
        rows = rows_of(update.batch, update.z, step)
        fresh = jax.random.normal(action_key, (NUM_ROWS, SPEC.action_dim))
        noise = update.noise if step == 0 else np.asarray(fresh, np.float64)
        action = np.asarray(
            [
                oracles.draw(before.policy, rows.obs[i], rows.z[i], noise[i]).action
                for i in range(NUM_ROWS)
            ]
        )
        between = np.asarray(jax.random.uniform(between_key, (NUM_ROWS, 1)), np.float64)[:, 0]

        def loss(
            values: oracles.Floats,
            rows: oracles.Rows = rows,
            action: oracles.Floats = action,
            between: oracles.Floats = between,
        ) -> float:
            network = oracles.unflatten(values, before.dual)
            return oracles.dual_loss(network, rows, action, between, penalty_weight=penalty_weight)

        losses.append(loss(values))
        gradient = oracles.numerical_gradient(loss, values)
        values = adam.step(values, gradient)
    return oracles.unflatten(values, before.dual), gradient, losses


def test_dual_critic_takes_three_steps_on_three_batches(update: Update) -> None:
    expected, gradient, losses = dual_by_hand(update)
    # by the last step the parameters carry the rounding of the first two
    assert oracles.agree(update.metrics["dual_loss"], losses[-1], rtol=1e-3)
    assert moved_alike(update.after.dual, expected, gradient, CONFIG.dual_learning_rate)


def test_dual_loss_fails_under_a_mutated_constant(update: Update) -> None:
    _, _, losses = dual_by_hand(update, penalty_weight=5.1)
    assert not oracles.agree(update.metrics["dual_loss"], losses[-1], rtol=1e-3)


@pytest.mark.parametrize("alpha", [2.0, 0.01, 2010.0])
def test_alpha_rises_by_the_divergence_above_its_target_and_is_clipped(alpha: float) -> None:
    update = run_update(CONFIG, alpha)
    before = in_float64(update.before)
    divergence = oracles.mean_divergence(before.policy, before.dual, update.rows, update.noise)
    assert divergence < -0.01  # so that both bounds are met
    assert oracles.agree(update.metrics["divergence"], divergence)
    assert oracles.agree(update.after.alpha, oracles.next_alpha(alpha, divergence))


@pytest.mark.parametrize(
    ("alpha", "constants"), [(2.0, {"target": 0.06}), (2010.0, {"largest": 2001.0})]
)
def test_alpha_fails_under_a_mutated_constant(alpha: float, constants: dict[str, float]) -> None:
    update = run_update(CONFIG, alpha)
    divergence = float(update.metrics["divergence"])
    assert not oracles.agree(update.after.alpha, oracles.next_alpha(alpha, divergence, **constants))


def test_without_divergence_the_policy_pays_none_and_the_dual_critic_rests() -> None:
    update = run_update(replace(CONFIG, divergence="none"))
    before, after = in_float64(update.before), in_float64(update.after)
    expected = oracles.policy_loss(
        before.policy,
        after.q,
        None,
        2.0,
        update.rows,
        update.noise,
        mean_regulariser=0.3,
        log_std_regulariser=0.2,
    )
    assert oracles.agree(update.metrics["policy_loss"], expected)
    assert not oracles.agree(update.metrics["policy_loss"], policy_loss(update))
    assert sac_brac.num_batches(replace(CONFIG, divergence="none")) == 1
    np.testing.assert_array_equal(oracles.flatten(before.dual), oracles.flatten(after.dual))
    assert update.after.alpha == update.before.alpha
    assert set(update.metrics) == {"q_loss", "policy_loss", "v_loss", "entropy"}


def test_meta_test_action_is_tanh_of_the_mean(update: Update) -> None:
    policy = in_float64(update.before.policy)
    action = sac_brac.act(update.before.policy, update.batch.obs[0], update.z)
    for i in range(NUM_ROWS):
        mean = oracles.mlp(policy, [*update.rows.obs[i], *update.rows.z[i]])[: SPEC.action_dim]
        assert oracles.agree(action[i], np.tanh(mean))


def test_defaults_are_the_papers() -> None:
    """Appendix C's table, and the released code where the table is silent."""
    config = SacBracConfig()
    assert config.hidden == (200, 200, 200)
    assert (config.learning_rate, config.dual_learning_rate) == (3e-4, 1e-4)
    assert (config.discount, config.target_rate) == (0.99, 0.005)
    assert (config.dual_steps, config.dual_penalty_weight) == (3, 5.0)
    assert (config.divergence_target, config.alpha_init, config.alpha_max) == (0.05, 50.0, 2000.0)
    assert (config.mean_regulariser, config.log_std_regulariser) == (1e-3, 1e-3)
