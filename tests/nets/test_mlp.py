"""The fully connected network against loops."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.nets import critic, mlp
from tests import oracles
from tests.learners.setting import in_float64, shaken

SIZES = (4, 6, 5, 2)
LAYERS = shaken(mlp.init(jax.random.key(0), SIZES), seed=0)
INPUTS = np.random.default_rng(0).normal(size=(3, 4))


def test_forward_pass() -> None:
    actual = mlp.apply(LAYERS, jnp.asarray(INPUTS, jnp.float32))
    expected = [oracles.mlp(in_float64(LAYERS), row.tolist()) for row in INPUTS]
    assert oracles.agree(actual, expected)


def test_last_columns_apart_are_the_same_columns() -> None:
    inputs = jnp.asarray(INPUTS, jnp.float32)
    together = mlp.apply(LAYERS, inputs)
    apart = mlp.apply(LAYERS, inputs[:, :3], last=inputs[:, 3:])
    np.testing.assert_allclose(apart, together, rtol=1e-5, atol=1e-6)


def test_leading_axes_are_a_batch() -> None:
    inputs = jnp.asarray(INPUTS, jnp.float32)
    deep = mlp.apply(LAYERS, jnp.broadcast_to(inputs, (2, 1, 3, 4)))
    assert deep.shape == (2, 1, 3, 2)
    np.testing.assert_allclose(deep[1, 0], mlp.apply(LAYERS, inputs), rtol=1e-6)


@pytest.mark.parametrize("output_scale", [1.0, 0.1])
def test_first_weights_are_uniform_by_fan_in(output_scale: float) -> None:
    layers = mlp.init(jax.random.key(1), (100, 64, 64), output_scale)
    for layer, bound in zip(layers, (0.1, 0.125 * output_scale), strict=True):
        weight = np.asarray(layer["weight"])
        assert np.abs(weight).max() <= bound
        assert weight.std() == pytest.approx(bound / 3**0.5, rel=0.05)
        np.testing.assert_array_equal(layer["bias"], 0.0)


def test_q_sees_state_embedding_and_action_in_this_order() -> None:
    key = jax.random.key(2)
    params = shaken(critic.init_q(key, 2, 1, (5,), 3), seed=1)
    obs, z, action = (jnp.asarray(INPUTS[:, :n], jnp.float32) for n in (2, 3, 1))
    expected = [
        oracles.mlp(in_float64(params), [*row[:2], *row[:3], *row[:1]])[0] for row in INPUTS
    ]
    assert oracles.agree(critic.q_value(params, obs, z, action), expected)


def test_v_sees_state_and_embedding() -> None:
    params = shaken(critic.init_v(jax.random.key(3), 2, (5,), 3), seed=1)
    obs, z = (jnp.asarray(INPUTS[:, :n], jnp.float32) for n in (2, 3))
    expected = [oracles.mlp(in_float64(params), [*row[:2], *row[:3]])[0] for row in INPUTS]
    assert oracles.agree(critic.v_value(params, obs, z), expected)


def test_dropout_leaves_out_hidden_units_and_keeps_the_mean() -> None:
    inputs = jnp.asarray(INPUTS, jnp.float32)
    plain = mlp.apply(LAYERS[:2], inputs)
    keys = jax.random.split(jax.random.key(3), 20_000)

    def dropped(key: jax.Array) -> Any:
        return mlp.apply(LAYERS[:2], inputs, dropout=mlp.Dropout(0.25, key))

    outputs = np.asarray(jax.vmap(dropped)(keys))
    # the second layer is linear in the kept units, whose expectation is theirs without dropout
    error = outputs.std(axis=0) / len(keys) ** 0.5
    assert (np.abs(outputs.mean(axis=0) - plain) < 5 * error + 1e-4).all()
    assert (outputs.std(axis=0) > 0.01).all()
    np.testing.assert_allclose(dropped(keys[0]), outputs[0], rtol=1e-5, atol=1e-6)


def test_dropout_by_hand() -> None:
    """Every output is the second layer of some of the hidden units, grown by 1 / (1 - rate)."""
    inputs = jnp.asarray(INPUTS[:1], jnp.float32)
    hidden = np.maximum(INPUTS[0] @ in_float64(LAYERS)[0]["weight"] + LAYERS[0]["bias"], 0.0)
    second = in_float64(LAYERS)[1]
    possible = [
        np.where([bool(which >> unit & 1) for unit in range(6)], 2 * hidden, 0.0)
        for which in range(2**6)
    ]
    outputs = np.stack([each @ second["weight"] + second["bias"] for each in possible])
    seen = set()
    for number in range(64):
        dropout = mlp.Dropout(0.5, jax.random.key(number))
        actual = np.asarray(mlp.apply(LAYERS[:2], inputs, dropout=dropout))[0]
        distance = np.abs(outputs - actual).max(axis=1)
        assert distance.min() < 1e-4
        seen.add(int(distance.argmin()))
    assert len(seen) > 8
