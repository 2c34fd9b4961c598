"""The fully connected network that every other network here is made of."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from idaq.types import Array, Key

Layers = list[dict[str, jax.Array]]  # each has a `weight` and a `bias`


def init(key: Key, sizes: tuple[int, ...], output_scale: float = 1.0) -> Layers:
    """Weights uniform in ±1/sqrt(fan-in) (the last layer times `output_scale`), biases zero."""
    layers: Layers = []
    keys = jax.random.split(key, len(sizes) - 1)
    for index, (layer_key, rows, columns) in enumerate(zip(keys, sizes, sizes[1:], strict=False)):
        bound = rows**-0.5 * (output_scale if index == len(sizes) - 2 else 1.0)
        weight = jax.random.uniform(layer_key, (rows, columns), minval=-bound, maxval=bound)
        layers.append({"weight": weight, "bias": jnp.zeros(columns)})
    return layers


class Dropout(NamedTuple):
    """Hidden units are dropped with probability `rate`, by `key`; the others are scaled up."""

    rate: float
    key: Key


def apply(
    layers: Layers, x: jax.Array, last: jax.Array | None = None, dropout: Dropout | None = None
) -> jax.Array:
    """[..., inputs] to [..., outputs], ReLU between the layers.

    `last` holds the last columns of the input. As it is given apart from `x`, its gradient takes
    only its own rows of the first weight, and none is computed for the columns of `x`.
    """
    first, *others = layers
    if last is None:
        hidden = x @ first["weight"] + first["bias"]
    else:
        rows = x.shape[-1]
        hidden = x @ first["weight"][:rows] + last @ first["weight"][rows:] + first["bias"]
    for index, layer in enumerate(others):
        hidden = jax.nn.relu(hidden)
        if dropout is not None:
            hidden = _drop(hidden, dropout.rate, jax.random.fold_in(dropout.key, index))
        hidden = hidden @ layer["weight"] + layer["bias"]
    return hidden


def _drop(hidden: Array, rate: float, key: Key) -> jax.Array:
    limit = round(256 * rate)  # a random byte costs a quarter of a random float
    kept = jax.random.bits(key, hidden.shape, "uint8") >= limit
    return jnp.where(kept, hidden * (256 / (256 - limit)), 0.0)
