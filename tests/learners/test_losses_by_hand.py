"""The losses that several learners share, against loops and by hand."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.learners import losses

RNG = np.random.default_rng(3)


def loop_mean(values: Any, weight: Any) -> float:
    chosen = [float(v) for v, w in zip(values, weight, strict=True) if w]
    return sum(chosen) / len(chosen) if chosen else 0.0


@pytest.mark.parametrize("weight", [[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]])
def test_weighted_mean(weight: list[int]) -> None:
    values = RNG.normal(size=4)
    found = losses.weighted_mean(jnp.asarray(values), jnp.asarray(weight, jnp.float32))
    assert float(found) == pytest.approx(loop_mean(values, weight), rel=1e-5)


def weights_by_loop(advantage: Any, weight: Any, temperature: float, most: float) -> list[float]:
    mean = loop_mean(advantage, weight)
    std = math.sqrt(loop_mean((advantage - mean) ** 2, weight) + 1e-8)
    return [min(math.exp((a - mean) / std / temperature), most) for a in advantage]


@pytest.mark.parametrize(("temperature", "most"), [(1.0, 20.0), (0.3, 20.0), (0.5, 2.0)])
def test_advantage_weights(temperature: float, most: float) -> None:
    advantage, weight = RNG.normal(2.0, 5.0, size=9), np.asarray([1, 1, 0, 1, 1, 1, 0, 1, 1])
    found = losses.advantage_weights(
        jnp.asarray(advantage), jnp.asarray(weight, jnp.float32), temperature, most
    )
    np.testing.assert_allclose(
        found, weights_by_loop(advantage, weight, temperature, most), rtol=1e-4
    )
    assert float(found.max()) == pytest.approx(most) or most == 20.0


def test_equal_advantages_weigh_one() -> None:
    same = jnp.full(4, 7.0)
    np.testing.assert_allclose(losses.advantage_weights(same, jnp.ones(4), 1.0, 20.0), 1.0)


def test_advantage_weights_have_no_gradient() -> None:
    def total(advantage: Any) -> Any:
        weights = losses.advantage_weights(advantage, jnp.ones(5), 1.0, 20.0)
        return (weights * jnp.arange(5.0)).sum()

    np.testing.assert_array_equal(jax.grad(total)(jnp.asarray(RNG.normal(size=5))), 0.0)


def test_divergence_of_gaussians() -> None:
    """The closed form, one dimension at a time; also the default prior N(0, I)."""
    mean, prior_mean = RNG.normal(size=(2, 3, 4))
    log_variance, prior_log_variance = 0.5 * RNG.normal(size=(2, 3, 4))

    def by_hand(prior_mean: Any, prior_log_variance: Any) -> list[float]:
        result = []
        for i in range(3):
            total = 0.0
            for d in range(4):
                own, prior = math.exp(log_variance[i, d]), math.exp(prior_log_variance[i, d])
                square = (mean[i, d] - prior_mean[i, d]) ** 2
                total += 0.5 * (math.log(prior / own) + (own + square) / prior - 1.0)
            result.append(total)
        return result

    given = [jnp.asarray(x) for x in (mean, log_variance, prior_mean, prior_log_variance)]
    found = losses.gaussian_kl(*given)
    np.testing.assert_allclose(found, by_hand(prior_mean, prior_log_variance), rtol=1e-4)
    zero = np.zeros((3, 4))
    np.testing.assert_allclose(losses.gaussian_kl(*given[:2]), by_hand(zero, zero), rtol=1e-4)
    np.testing.assert_allclose(losses.gaussian_kl(*given[:2], *given[:2]), 0.0, atol=1e-6)


def test_temperature_rises_while_entropy_is_below_its_target() -> None:
    log_prob = jnp.asarray([1.0, 3.0])  # an entropy of -2

    for target_entropy, slope in ((-1.0, -math.exp(0.5)), (-3.0, math.exp(0.5)), (-2.0, 0.0)):

        def loss(log_temperature: Any, log_prob: Any, target: float = target_entropy) -> Any:
            return losses.temperature_loss(log_temperature, log_prob, target)

        own, other = jax.grad(loss, argnums=(0, 1))(jnp.asarray(0.5), log_prob)
        assert float(own) == pytest.approx(slope, abs=1e-6)
        np.testing.assert_array_equal(other, 0.0)


def test_soft_value() -> None:
    found = losses.soft_value(jnp.asarray([1.0, 2.0]), jnp.asarray([3.0, -1.0]), jnp.asarray(0.5))
    assert found.tolist() == [-0.5, 2.5]


def test_twin_error_is_of_both_and_gives_its_target_no_gradient() -> None:
    values = (jnp.asarray([1.0, 2.0]), jnp.asarray([0.0, 5.0]))
    target = jnp.asarray([0.0, 4.0])
    assert losses.twin_error(values, target) == 2.5 + 0.5
    slope = jax.grad(lambda target: losses.twin_error(values, target))(target)
    np.testing.assert_array_equal(slope, 0.0)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 1.0])
def test_discounted_returns(discount: float) -> None:
    """Rewards after the end do not count; [episodes, horizon]."""
    reward, lengths = RNG.normal(size=(3, 5)), [5, 2, 1]
    valid = np.arange(5) < np.asarray(lengths)[:, None]
    found = losses.discounted_returns(jnp.asarray(reward), jnp.asarray(valid), discount)
    assert found.shape == (3, 5)
    for episode, length in enumerate(lengths):
        for step in range(5):
            later = range(step, length)
            expected = sum(discount ** (t - step) * reward[episode, t] for t in later)
            assert float(found[episode, step]) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_value_of_td3_bc_is_scaled_by_its_size_but_not_by_nothing() -> None:
    """Where Q is zero everywhere there is nothing to divide by."""
    action = jnp.ones((2, 3))
    found = losses.td3_bc_policy_loss(jnp.zeros(2), action, jnp.zeros((2, 3)), 0.5)
    assert float(found) == pytest.approx(0.5)
