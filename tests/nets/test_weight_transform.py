"""Weight-transform layers: what they emit, and one gradient step of all their tensors."""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.nets import mlp
from idaq.nets import weight_transform as wt
from tests import baseline_oracles, oracles, tiny
from tests.learners.setting import in_float64

SIZES = (3, 5, 4, 2)
LAYERS = wt.init(jax.random.key(0), SIZES, 6)
RATES = [
    wt.Layer(*(jnp.asarray(0.1 * (1 + 3 * i + j), jnp.float32) for j in range(3)))
    for i in range(len(LAYERS))
]
RNG = np.random.default_rng(0)
GRADIENTS = [jnp.asarray(RNG.normal(size=layer.bias.shape), jnp.float32) for layer in LAYERS]


def numbers(rates: Any) -> Any:
    return [tuple(float(x) for x in rate) for rate in rates]


def test_it_emits_the_map_of_its_code() -> None:
    expected = [baseline_oracles.emitted(*layer) for layer in in_float64(LAYERS)]
    for actual, wanted in zip(wt.emit(LAYERS), expected, strict=True):
        assert oracles.agree(actual, wanted)


def test_a_step_moves_all_three_tensors() -> None:
    gradient = np.concatenate([np.asarray(g, np.float64) for g in GRADIENTS])
    expected = baseline_oracles.inner_step(in_float64(LAYERS), numbers(RATES), gradient)
    actual = wt.join(wt.step(LAYERS, RATES, GRADIENTS))
    assert oracles.agree(actual, expected)


@pytest.mark.parametrize("tensor", range(3))
def test_every_rate_matters(tensor: int) -> None:
    gradient = np.concatenate([np.asarray(g, np.float64) for g in GRADIENTS])
    mutated = [
        tuple(1.02 * r if i == tensor else r for i, r in enumerate(n)) for n in numbers(RATES)
    ]
    expected = baseline_oracles.inner_step(in_float64(LAYERS), mutated, gradient)
    assert not oracles.agree(wt.join(wt.step(LAYERS, RATES, GRADIENTS)), expected)


def test_derivatives_through_the_step_are_those_of_moving_the_tensors() -> None:
    """The outer loop differentiates through it: against tensors moved by automatic gradients."""
    inputs = jnp.asarray(RNG.normal(size=(7, 3)), jnp.float32)

    def loss(flat: Any) -> Any:
        return jnp.square(mlp.apply(wt.as_mlp(flat, SIZES), inputs)).mean()

    def closed_form(layers: Any, rates: Any) -> Any:
        return loss(wt.step(layers, rates, jax.grad(loss)(wt.emit(layers))))

    def written_out(layers: Any, rates: Any) -> Any:
        gradient = jax.grad(lambda each: loss(wt.emit(each)))(layers)
        return loss(wt.emit(jax.tree.map(lambda x, r, g: x - r * g, layers, rates, gradient)))

    first, second = (
        jax.jit(jax.value_and_grad(each, argnums=(0, 1)), compiler_options=tiny.QUICK)(
            LAYERS, RATES
        )
        for each in (closed_form, written_out)
    )
    assert tiny.close(first, second)
    assert all(np.abs(leaf).max() > 0 for leaf in tiny.leaves(first[1]))


def test_weights_survive_being_joined_and_split() -> None:
    flat = wt.emit(LAYERS)
    again = wt.split(wt.join(flat), SIZES)
    assert tiny.same(again, flat)
    assert wt.join(flat).shape == (wt.num_weights(SIZES),)
    for layer, (rows, columns) in zip(wt.as_mlp(flat, SIZES), pairwise(SIZES), strict=True):
        assert layer["weight"].shape == (rows, columns)
        assert layer["bias"].shape == (columns,)
    first = np.asarray(flat[0])
    np.testing.assert_array_equal(wt.as_mlp(flat, SIZES)[0]["weight"], first[:15].reshape(3, 5))


def test_the_authors_start_has_small_codes_and_uniform_maps() -> None:
    sizes, code_dim = (50, 60, 2), 100
    layers = wt.init(jax.random.key(1), sizes, code_dim)
    for layer, (rows, columns) in zip(layers, pairwise(sizes), strict=True):
        size = rows * columns + columns
        assert [x.shape for x in layer] == [(code_dim,), (code_dim, size), (size,)]
        assert np.asarray(layer.code).std() == pytest.approx(1 / columns, rel=0.3)
        for tensor in (layer.weight, layer.bias):
            assert np.abs(tensor).max() <= 0.1
            assert np.asarray(tensor).std() == pytest.approx(0.1 / 3**0.5, rel=0.1)
    assert not np.array_equal(layers[0].code, layers[1].code)
