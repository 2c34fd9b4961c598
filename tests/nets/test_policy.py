"""The tanh-Gaussian policy: density against loops and against numerical integration."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.nets import policy
from tests import oracles
from tests.learners.setting import in_float64, shaken

KEY = jax.random.key(7)
OBS, Z = jnp.asarray([[0.5, -1.0], [1.5, 0.3]]), jnp.asarray([[0.2], [-0.9]])
PARAMS = shaken(policy.init_gaussian(jax.random.key(0), 2, 3, (5,), 1), seed=0)


def constant_policy(mean: float, log_std: float) -> Any:
    """A policy of one action whose outputs do not depend on its inputs."""
    return [{"weight": jnp.zeros((2, 2)), "bias": jnp.asarray([mean, log_std])}]


def log_density(normaliser: float = 2.0 * math.pi) -> list[float]:
    noise = np.asarray(jax.random.normal(KEY, (2, 3)), np.float64)
    result = []
    for i in range(2):
        inputs = [*np.asarray(OBS[i]), *np.asarray(Z[i])]
        outputs = oracles.mlp(in_float64(PARAMS), inputs)
        mean, log_std = outputs[:3], [min(max(x, -20.0), 0.0) for x in outputs[3:]]
        before = [m + math.exp(s) * n for m, s, n in zip(mean, log_std, noise[i], strict=True)]
        result.append(
            oracles.tanh_gaussian_log_density(before, mean, log_std, normaliser=normaliser)
        )
    return result


def test_log_density() -> None:
    drawn = policy.sample(PARAMS, OBS, Z, KEY)
    assert oracles.agree(drawn.log_prob, log_density())
    assert np.abs(drawn.action).max() < 1.0


def test_log_density_fails_under_a_mutated_constant() -> None:
    drawn = policy.sample(PARAMS, OBS, Z, KEY)
    assert not oracles.agree(drawn.log_prob, log_density(normaliser=6.28))


@pytest.mark.parametrize(("name", "value"), [("LOG_STD_MAX", -0.1), ("LOG_STD_MIN", -0.2)])
def test_log_density_fails_under_another_bound(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(policy, name, value)
    assert not oracles.agree(policy.sample(PARAMS, OBS, Z, KEY).log_prob, log_density())


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.5, -0.5)])
def test_density_integrates_to_one(mean: float, log_std: float) -> None:
    """The densities reported for many actions, integrated over those actions."""
    num = 20_000
    obs, z = jnp.zeros((num, 1)), jnp.zeros((num, 1))
    drawn = policy.sample(constant_policy(mean, log_std), obs, z, KEY)
    order = np.argsort(np.asarray(drawn.action[:, 0]))
    action = np.asarray(drawn.action[:, 0], np.float64)[order]
    density = np.exp(np.asarray(drawn.log_prob, np.float64))[order]
    mass = np.trapezoid(density, action)
    assert mass == pytest.approx(1.0, abs=5e-3)
    # and mass up to a point is the share of the draws below it
    middle = num // 3
    below = np.trapezoid(density[:middle], action[:middle])
    assert below == pytest.approx(1.0 / 3.0, abs=0.02)


def test_oracle_density_integrates_to_one() -> None:
    """The oracle's own density, on a grid of actions."""
    action = np.linspace(-1.0 + 1e-7, 1.0 - 1e-7, 200_001)[1:-1]
    before = np.arctanh(action)
    density = [math.exp(oracles.tanh_gaussian_log_density([x], [0.4], [-0.7])) for x in before]
    assert np.trapezoid(density, action) == pytest.approx(1.0, abs=1e-4)


@given(st.floats(-30.0, 30.0))
def test_density_is_finite_far_out(mean: float) -> None:
    """log(1 - tanh(x)^2) is minus infinity in single precision beyond |x| = 9."""
    drawn = policy.sample(constant_policy(mean, -20.0), jnp.zeros((1, 1)), jnp.zeros((1, 1)), KEY)
    log_slope = 2.0 * (math.log(2.0) - abs(mean) - math.log1p(math.exp(-2.0 * abs(mean))))
    noise = float(jax.random.normal(KEY, (1, 1))[0, 0])
    expected = -0.5 * noise**2 + 20.0 - 0.5 * math.log(2.0 * math.pi) - log_slope
    assert float(drawn.log_prob[0]) == pytest.approx(expected, rel=1e-4, abs=1e-3)


def test_log_std_is_bounded() -> None:
    for output, bounded in ((5.0, 0.0), (-50.0, -20.0), (-3.0, -3.0)):
        _, log_std = policy.gaussian(
            constant_policy(0.0, output), jnp.zeros((1, 1)), jnp.zeros((1, 1))
        )
        assert log_std[0, 0] == bounded


def test_mode_is_tanh_of_the_mean_and_first_actions_are_small() -> None:
    mode = policy.gaussian_mode(constant_policy(0.7, 0.0), jnp.zeros((1, 1)), jnp.zeros((1, 1)))
    assert mode[0, 0] == pytest.approx(math.tanh(0.7))
    fresh = policy.init_deterministic(jax.random.key(0), 2, 3, (64, 64), 1)
    assert np.abs(policy.deterministic(fresh, OBS, Z)).max() < 0.1
