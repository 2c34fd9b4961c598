"""Soft actor-critic: one whole update against loops, finite differences and Adam by hand."""

import json
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.behaviour.replay import Replay, add_rows, empty_replay, sample_replay
from idaq.behaviour.sac import Sac, SacConfig, SacState
from idaq.config import from_dict, to_dict
from idaq.errors import IdaqError
from idaq.types import Spec, Transition
from tests import oracles, tiny
from tests.behaviour import sac_oracle
from tests.learners.setting import NUM_ROWS, SPEC, batches, in_float64, moved_alike, rows_of, shaken

CONFIG = SacConfig(
    policy_hidden=(4,),
    critic_hidden=(3,),
    learning_rate=1e-2,
    discount=0.9,
    target_rate=0.25,
    batch_size=NUM_ROWS,
    reward_scale=3.0,
    temperature_init=0.7,
    entropy_per_action_dim=-0.5,
)
CONDITIONS = np.array([[0.5, -1.0], [-0.25, 2.0], [1.5, 0.75]], np.float32)
SAC = Sac(CONFIG, SPEC, CONDITIONS.shape[1])
KEY = jax.random.key(5)
compiled = jax.jit(SAC.update, compiler_options=tiny.QUICK)


def replay() -> Replay:
    """Five transitions of three tasks in a ring that has room for ten."""
    rows, _ = batches(1)
    first = Transition(*(field[0] for field in rows))
    ring: Replay = add_rows(
        empty_replay(SPEC, 2 * NUM_ROWS, CONDITIONS), first, jnp.asarray([0, 1, 2, 1, 0])
    )
    return ring


class Update(NamedTuple):
    """An update, and what the oracles need to follow it."""

    before: SacState
    after: SacState
    metrics: dict[str, Any]
    rows: oracles.Rows
    target_noise: oracles.Floats
    policy_noise: oracles.Floats


@pytest.fixture(scope="module")
def update() -> Update:
    state = SAC.init(jax.random.key(0))
    names = ("policy", "q", "target_q")
    state = state._replace(**{n: shaken(getattr(state, n), i) for i, n in enumerate(names)})
    batch_key, target_key, policy_key = jax.random.split(KEY, 3)
    batch, condition = sample_replay(replay(), NUM_ROWS, batch_key)
    after, metrics = compiled(state, replay(), KEY)
    rows = rows_of(Transition(*(field[None] for field in batch)), condition, 0)
    shape = (NUM_ROWS, SPEC.action_dim)
    noise = (np.asarray(jax.random.normal(k, shape), np.float64) for k in (target_key, policy_key))
    return Update(state, after, metrics, rows, *noise)


def q_loss(update: Update, **constants: float) -> float:
    before = in_float64(update.before)
    constants = {"temperature": 0.7, "discount": 0.9, "reward_scale": 3.0} | constants
    return sac_oracle.q_loss(
        before.q, before.target_q, before.policy, update.rows, update.target_noise, **constants
    )


def policy_loss(update: Update, temperature: float = 0.7) -> float:
    before, after = in_float64(update.before), in_float64(update.after)
    return sac_oracle.policy_loss(
        before.policy, after.q, update.rows, update.policy_noise, temperature=temperature
    )


def test_losses(update: Update) -> None:
    assert oracles.agree(update.metrics["q_loss"], q_loss(update))
    assert oracles.agree(update.metrics["policy_loss"], policy_loss(update))
    assert oracles.agree(update.metrics["temperature"], 0.7)


@pytest.mark.parametrize(
    "mutated", [{"discount": 0.901}, {"reward_scale": 3.01}, {"temperature": 0.71}]
)
def test_the_q_loss_fails_under_a_mutated_constant(
    update: Update, mutated: dict[str, float]
) -> None:
    assert not oracles.agree(update.metrics["q_loss"], q_loss(update, **mutated))


def test_the_policy_loss_fails_under_a_mutated_temperature(update: Update) -> None:
    assert not oracles.agree(update.metrics["policy_loss"], policy_loss(update, 0.71))


def test_critics_take_an_adam_step_and_their_targets_follow(update: Update) -> None:
    before, after = in_float64(update.before), in_float64(update.after)
    for index in range(2):

        def loss(values: oracles.Floats, index: int = index) -> float:
            return sac_oracle.q_loss(
                [oracles.unflatten(values, before.q[index])],
                before.target_q,
                before.policy,
                update.rows,
                update.target_noise,
                temperature=0.7,
                discount=0.9,
                reward_scale=3.0,
            )

        values = oracles.flatten(before.q[index])
        gradient = oracles.numerical_gradient(loss, values)
        expected = oracles.Adam(values.size, CONFIG.learning_rate).step(values, gradient)
        network = oracles.unflatten(expected, before.q[index])
        assert moved_alike(update.after.q[index], network, gradient, CONFIG.learning_rate)
        followed = 0.75 * oracles.flatten(before.target_q[index])
        followed += 0.25 * oracles.flatten(after.q[index])
        assert oracles.agree(oracles.flatten(after.target_q[index]), followed)


def test_policy_takes_an_adam_step_on_its_own_loss(update: Update) -> None:
    before, after = in_float64(update.before), in_float64(update.after)

    def loss(values: oracles.Floats) -> float:
        policy = oracles.unflatten(values, before.policy)
        return sac_oracle.policy_loss(
            policy, after.q, update.rows, update.policy_noise, temperature=0.7
        )

    values = oracles.flatten(before.policy)
    gradient = oracles.numerical_gradient(loss, values)
    expected = oracles.Adam(values.size, CONFIG.learning_rate).step(values, gradient)
    network = oracles.unflatten(expected, before.policy)
    assert moved_alike(update.after.policy, network, gradient, CONFIG.learning_rate)


@pytest.mark.parametrize("entropy_per_action_dim", [-5.0, 0.6])
def test_temperature_holds_the_entropy_at_its_target(
    update: Update, entropy_per_action_dim: float
) -> None:
    """It falls where there is more entropy than the target, and rises where there is less."""
    policy = in_float64(update.before.policy)
    target = entropy_per_action_dim * SPEC.action_dim

    def loss(values: oracles.Floats) -> float:
        return sac_oracle.temperature_loss(
            float(values[0]), policy, update.rows, update.policy_noise, target_entropy=target
        )

    start = np.array([math.log(0.7)])
    gradient = oracles.numerical_gradient(loss, start)
    (expected,) = oracles.Adam(1, CONFIG.learning_rate).step(start, gradient)
    config = from_dict(
        SacConfig, to_dict(CONFIG) | {"entropy_per_action_dim": entropy_per_action_dim}
    )
    other = Sac(config, SPEC, CONDITIONS.shape[1])
    after, metrics = jax.jit(other.update, compiler_options=tiny.QUICK)(
        update.before, replay(), KEY
    )
    assert oracles.agree(after.log_temperature, expected)
    assert (after.log_temperature > start[0]) == (metrics["entropy"] < target)


def test_actions(update: Update) -> None:
    """In the environment's units: the mode, or what the key draws."""
    spec = Spec(obs_dim=2, action_dim=2, action_low=(-3.0, 0.0), action_high=(1.0, 8.0), horizon=5)
    policy, obs, told = update.before.policy, update.rows.obs[0], CONDITIONS[1]
    mode, _ = Sac(CONFIG, spec, 2, acting="mode").act(policy, told, (), jnp.asarray(obs), KEY)
    mean = np.tanh(oracles.mlp(in_float64(policy), [*obs, *told])[:2])
    assert oracles.agree(mode, np.array([-1.0, 4.0]) + mean * np.array([2.0, 4.0]))
    drawn, carry = Sac(CONFIG, spec, 2).act(policy, told, (), jnp.asarray(obs), KEY)
    noise = np.asarray(jax.random.normal(KEY, (2,)), np.float64)
    wanted = np.asarray(sac_oracle.draw(in_float64(policy), obs, told, noise).action)
    assert oracles.agree(drawn, np.array([-1.0, 4.0]) + wanted * np.array([2.0, 4.0]))
    assert carry == ()


def test_update_keeps_its_kinds_and_follows_its_key(update: Update) -> None:
    again, _ = compiled(update.before, replay(), KEY)
    other, _ = compiled(update.before, replay(), jax.random.key(6))
    assert tiny.same(again, update.after)
    assert not tiny.same(other.policy, update.after.policy)
    assert tiny.same_structure(update.after, update.before)
    for old, new in zip(jax.tree.leaves(update.before), jax.tree.leaves(update.after), strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
    assert tiny.same_structure(SAC.agent_shapes(), update.before.policy)


def test_configuration_survives_json_and_is_checked() -> None:
    assert from_dict(SacConfig, json.loads(json.dumps(to_dict(CONFIG)))) == CONFIG
    for bad in ({"batch_size": 0}, {"temperature_init": 0.0}, {"policy_hidden": ()}):
        with pytest.raises(IdaqError):
            from_dict(SacConfig, to_dict(CONFIG) | bad)


# --- The replay ---


@pytest.mark.parametrize(
    ("num_kept", "num_blocks", "expected"),
    [(0, 3, [2, 2, 1, 1]), (0, 4, [2, 2, 3, 3]), (2, 3, [0, 0, 2, 2]), (2, 5, [0, 0, 4, 4])],
)
def test_the_ring_forgets_the_oldest_block_that_need_not_stay(
    num_kept: int, num_blocks: int, expected: list[int]
) -> None:
    ring = empty_replay(SPEC, 4, CONDITIONS, num_kept)
    for number in range(num_blocks):
        full = jnp.full(2, float(number))
        rows = Transition(
            obs=jnp.full((2, 2), number),
            action=jnp.full((2, 2), number),
            reward=full,
            next_obs=jnp.full((2, 2), number),
            terminated=full,
        )
        ring = add_rows(ring, rows, np.full(2, number, np.int32))
    assert int(ring.num_written) == 2 * num_blocks
    assert np.asarray(ring.rows.reward).tolist() == expected
    assert np.asarray(ring.task).tolist() == expected


def test_samples_are_rows_that_were_written_with_their_tasks_condition() -> None:
    ring = replay()
    batch, condition = sample_replay(ring, 200, KEY)
    written = np.asarray(ring.rows.reward)[:NUM_ROWS]
    assert set(np.asarray(batch.reward).tolist()) == set(written.tolist())
    for reward, told in zip(np.asarray(batch.reward), np.asarray(condition), strict=True):
        row = int(np.flatnonzero(written == reward)[0])
        np.testing.assert_array_equal(told, CONDITIONS[int(ring.task[row])])
