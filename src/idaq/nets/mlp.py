"""The fully connected network that every other network here is made of."""

from typing import Any

import jax
import jax.numpy as jnp

from idaq.types import Array, PyTree


def init(key: Array, sizes: tuple[int, ...], output_scale: float = 1.0) -> PyTree:
    """Weights uniform in ±1/sqrt(fan-in) (the last layer times `output_scale`), biases zero."""
    layers = []
    keys = jax.random.split(key, len(sizes) - 1)
    for index, (layer_key, rows, columns) in enumerate(zip(keys, sizes, sizes[1:], strict=False)):
        bound = rows**-0.5 * (output_scale if index == len(sizes) - 2 else 1.0)
        weight = jax.random.uniform(layer_key, (rows, columns), minval=-bound, maxval=bound)
        layers.append({"weight": weight, "bias": jnp.zeros(columns)})
    return layers


def apply(layers: PyTree, x: Array, last: Array | None = None) -> Any:
    """[..., inputs] to [..., outputs], ReLU between the layers.

    `last` holds the last columns of the input. Given apart from `x`, its gradient is the product
    with its own rows of the first weight, and none is computed for the columns of `x`.
    """
    first, *others = layers
    if last is None:
        hidden = x @ first["weight"] + first["bias"]
    else:
        rows = x.shape[-1]
        hidden = x @ first["weight"][:rows] + last @ first["weight"][rows:] + first["bias"]
    for layer in others:
        hidden = jax.nn.relu(hidden) @ layer["weight"] + layer["bias"]
    return hidden
