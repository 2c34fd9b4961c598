"""Layers whose weights are emitted by a linear map from a learned vector (Mitchell et al., 2021).

A layer of i inputs and o outputs has a `code` [c], a map `weight` [c, i o + o] and its `bias`
[i o + o]; code @ weight + bias are the layer's weights and biases, one after the other. A gradient
step moves all three tensors, each at a rate of its own, and so moves the emitted weights by more
than their own gradient: that is what makes one step expressive.

The step is computed in closed form. With g the gradient of the emitted weights, that of the map is
the outer product code g', so the map after the step is never written out:

    code'    = code - rate_code * weight g
    emitted' = code' weight - rate_weight (code' . code) g + bias - rate_bias g

This is exact, and takes a hundredth of the memory of moving the map for every task.
"""

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp

from idaq.nets import mlp
from idaq.types import Array, Key, Vector


class Layer(NamedTuple):
    """The tensors of one layer, or one number for each of them."""

    code: jax.Array  # [code_dim]
    weight: jax.Array  # [code_dim, size]
    bias: jax.Array  # [size]


Flat = list[jax.Array]  # the weights and biases of every layer, [size] each


def init(key: Key, sizes: tuple[int, ...], code_dim: int) -> list[Layer]:
    """The authors' start: codes normal with deviation 1/o, the rest uniform in ±1/sqrt(c)."""
    bound = code_dim**-0.5
    layers = []
    for index, (rows, columns) in enumerate(pairwise(sizes)):
        code_key, map_key, bias_key = jax.random.split(jax.random.fold_in(key, index), 3)
        size = rows * columns + columns
        code = jax.random.normal(code_key, (code_dim,)) / columns
        weight = jax.random.uniform(map_key, (code_dim, size), minval=-bound, maxval=bound)
        layers.append(
            Layer(code, weight, jax.random.uniform(bias_key, (size,), minval=-bound, maxval=bound))
        )
    return layers


def constant_rates(layers: list[Layer], rate: float) -> list[Layer]:
    """One learning rate per tensor, all of them `rate`."""
    return [Layer(*(jnp.asarray(rate, jnp.float32) for _ in layer)) for layer in layers]


def emit(layers: list[Layer]) -> Flat:
    """The weights of every layer, each flat."""
    return [layer.code @ layer.weight + layer.bias for layer in layers]


def step(layers: list[Layer], rates: list[Layer], gradients: Flat) -> Flat:
    """The weights that are emitted after one gradient step of all tensors."""
    result = []
    for layer, rate, gradient in zip(layers, rates, gradients, strict=True):
        code = layer.code - rate.code * (layer.weight @ gradient)
        along = rate.weight * (code @ layer.code) + rate.bias
        result.append(code @ layer.weight + layer.bias - along * gradient)
    return result


def as_mlp(flat: Flat, sizes: tuple[int, ...]) -> mlp.Layers:
    """Emitted weights as the layers of `idaq.nets.mlp`."""
    layers: mlp.Layers = []
    for values, (rows, columns) in zip(flat, pairwise(sizes), strict=True):
        weight, bias = values[: rows * columns], values[rows * columns :]
        layers.append({"weight": weight.reshape(rows, columns), "bias": bias})
    return layers


def join(flat: Flat) -> Vector:
    """All emitted weights in one vector."""
    return jnp.concatenate(flat)


def split(vector: Array, sizes: tuple[int, ...]) -> Flat:
    """The inverse of `join`."""
    ends, total = [], 0
    for rows, columns in pairwise(sizes):
        total += rows * columns + columns
        ends.append(total)
    return jnp.split(vector, ends[:-1])


def num_weights(sizes: tuple[int, ...]) -> int:
    """How many weights all layers have."""
    return sum(rows * columns + columns for rows, columns in pairwise(sizes))
