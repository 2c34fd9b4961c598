"""Losses against loops; each comparison also fails when a constant is changed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.learners import losses
from tests import oracles

RNG = np.random.default_rng(0)
EMBEDDING = np.tanh(RNG.normal(size=(7, 4)))
TASK = [3, 1, 3, 0, 1, 3, 2]
LOGITS = np.array([-18.0, -2.0, -0.3, 0.0, 0.7, 3.0, 25.0])
AT_DATA = np.array([0.5, -3.0, 0.2, -18.0, 9.0, 0.0, 1.0])
Q = RNG.normal(size=6) - 1.0
ACTION, DATA_ACTION = np.tanh(RNG.normal(size=(2, 6, 3)))
REWARD, NEXT_OBS = RNG.normal(size=5), RNG.normal(size=(5, 3))
REWARDS, NEXT_OBSERVATIONS = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5, 3))


def single(array: Any) -> Any:
    """In single precision."""
    return jnp.asarray(array, jnp.float32)


def metric_loss() -> Any:
    return losses.metric_loss(single(EMBEDDING), jnp.asarray(TASK))


def divergence() -> Any:
    return losses.dual_divergence(single(LOGITS), single(AT_DATA))


def divergence_oracle(**constants: float) -> list[float]:
    pairs = zip(LOGITS, AT_DATA, strict=True)
    return [oracles.dual_divergence(p, d, **constants) for p, d in pairs]


def test_metric_loss() -> None:
    assert oracles.agree(metric_loss(), oracles.metric_loss(EMBEDDING, TASK))


@pytest.mark.parametrize(
    ("name", "value"), [("SAME_TASK_EPSILON", 2e-3), ("DIFFERENT_TASK_EPSILON", 0.101)]
)
def test_metric_loss_fails_under_a_mutated_constant(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(losses, name, value)
    assert not oracles.agree(metric_loss(), oracles.metric_loss(EMBEDDING, TASK))


@pytest.mark.parametrize("task", [[4] * 7, list(range(7))], ids=["one task", "all different"])
def test_metric_loss_of_one_kind_of_pair(task: list[int]) -> None:
    actual = losses.metric_loss(single(EMBEDDING), jnp.asarray(task))
    assert oracles.agree(actual, oracles.metric_loss(EMBEDDING, task))


@given(st.lists(st.integers(0, 3), min_size=5, max_size=5), st.permutations(range(5)))
def test_metric_loss_does_not_depend_on_order(task: list[int], order: list[int]) -> None:
    embedding = EMBEDDING[:5]
    expected = oracles.metric_loss(embedding, task)
    for places in (list(range(5)), order):
        shuffled = single(embedding[places])
        actual = losses.metric_loss(shuffled, jnp.asarray([task[i] for i in places]))
        assert oracles.agree(actual, expected)


def test_metric_loss_pulls_together_and_pushes_apart() -> None:
    def gradient(task: list[int]) -> Any:
        two = jnp.asarray([[0.1, 0.0], [-0.1, 0.0]])
        return jax.grad(losses.metric_loss)(two, jnp.asarray(task))

    pull, push = gradient([0, 0]), gradient([0, 1])
    assert pull[0, 0] > 0.0 > pull[1, 0]  # descent moves them towards each other
    assert push[0, 0] < 0.0 < push[1, 0]


def test_metric_loss_has_a_gradient_where_embeddings_coincide() -> None:
    gradient = jax.grad(losses.metric_loss)(jnp.ones((3, 2)), jnp.asarray([0, 0, 1]))
    assert np.isfinite(gradient).all()


def test_dual_divergence() -> None:
    assert oracles.agree(divergence(), divergence_oracle())


@pytest.mark.parametrize("constants", [{"epsilon": 2e-8}, {"shift": 1.01}])
def test_dual_divergence_fails_under_a_mutated_constant(constants: dict[str, float]) -> None:
    assert not oracles.agree(divergence(), divergence_oracle(**constants))


def test_dual_divergence_fails_with_another_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "DUAL_EPSILON", 1e-7)
    assert not oracles.agree(divergence(), divergence_oracle())


def test_dual_divergence_is_at_most_zero_where_policy_is_the_data() -> None:
    """log x - x + 1 <= 0, with equality at x = 1: the bound is tight for the right ratio."""
    logits = jnp.linspace(-5.0, 5.0, 101)
    assert losses.dual_divergence(logits, logits).max() <= 1e-6
    ratio_one = jnp.log(jnp.expm1(jnp.ones(())))  # softplus of it is 1
    assert losses.dual_divergence(ratio_one, ratio_one) == pytest.approx(0.0, abs=1e-6)


def test_dual_penalty() -> None:
    expected = oracles.dual_penalty(LOGITS.tolist())
    assert oracles.agree(losses.dual_penalty(single(LOGITS)), expected)


def test_dual_penalty_fails_under_a_mutated_constant() -> None:
    mutated = oracles.dual_penalty(LOGITS.tolist(), bound=1.01)
    assert not oracles.agree(losses.dual_penalty(single(LOGITS)), mutated)


def test_dual_penalty_is_zero_up_to_size_one_and_has_a_gradient_at_zero() -> None:
    assert losses.dual_penalty(jnp.asarray([-0.99, 0.0, 0.99])) == 0.0
    assert np.isfinite(jax.grad(losses.dual_penalty)(jnp.zeros(3))).all()


TERMINATED = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
NEXT_VALUE = np.array([1.0, 2.0, -3.0, 4.0, 0.0])


def td_oracle(discount: float) -> list[float]:
    rows = zip(REWARD, TERMINATED, NEXT_VALUE, strict=True)
    return [oracles.td_target(r, t, v, discount=discount) for r, t, v in rows]


def test_td_target() -> None:
    actual = losses.td_target(single(REWARD), single(TERMINATED), single(NEXT_VALUE), 0.99)
    assert oracles.agree(actual, td_oracle(0.99))


def test_td_target_fails_under_a_mutated_constant() -> None:
    actual = losses.td_target(single(REWARD), single(TERMINATED), single(NEXT_VALUE), 0.99)
    assert not oracles.agree(actual, td_oracle(0.9901))


def test_squared_error_gives_its_target_no_gradient() -> None:
    def loss(target: Any) -> Any:
        return losses.squared_error(jnp.asarray([1.0, 2.0]), target)

    target = jnp.asarray([0.0, 4.0])
    assert loss(target) == 2.5
    np.testing.assert_array_equal(jax.grad(loss)(target), 0.0)


def test_td3_bc_policy_loss() -> None:
    actual = losses.td3_bc_policy_loss(single(Q), single(ACTION), single(DATA_ACTION), 0.7)
    expected = oracles.td3_bc_policy_loss(Q.tolist(), ACTION, DATA_ACTION, bc_weight=0.7)
    assert oracles.agree(actual, expected)


def test_td3_bc_policy_loss_fails_under_a_mutated_constant() -> None:
    actual = losses.td3_bc_policy_loss(single(Q), single(ACTION), single(DATA_ACTION), 0.7)
    mutated = oracles.td3_bc_policy_loss(Q.tolist(), ACTION, DATA_ACTION, bc_weight=0.701)
    assert not oracles.agree(actual, mutated)


def test_td3_bc_policy_loss_treats_its_scale_as_a_constant() -> None:
    def value_part(q: Any) -> Any:
        action = single(ACTION)
        return losses.td3_bc_policy_loss(q, action, action, 1.0)

    q = single(Q)
    expected = -1.0 / len(Q) / np.abs(Q).mean()
    np.testing.assert_allclose(jax.grad(value_part)(q), expected, rtol=1e-5)


@given(st.floats(0.01, 1000.0))
def test_td3_bc_policy_loss_does_not_depend_on_the_unit_of_reward(unit: float) -> None:
    once = losses.td3_bc_policy_loss(single(Q), single(ACTION), single(DATA_ACTION), 1.0)
    scaled = losses.td3_bc_policy_loss(single(unit * Q), single(ACTION), single(DATA_ACTION), 1.0)
    assert oracles.agree(scaled, once)


MODELS = (REWARD, NEXT_OBS, REWARDS, NEXT_OBSERVATIONS)


def test_model_loss() -> None:
    assert oracles.agree(losses.model_loss(*map(single, MODELS)), oracles.model_loss(*MODELS))


@pytest.mark.parametrize("constants", [{"reward_weight": 1.01}, {"state_weight": 0.99}])
def test_model_loss_fails_under_a_mutated_constant(constants: dict[str, float]) -> None:
    mutated = oracles.model_loss(REWARD, NEXT_OBS, REWARDS, NEXT_OBSERVATIONS, **constants)
    assert not oracles.agree(losses.model_loss(*map(single, MODELS)), mutated)
