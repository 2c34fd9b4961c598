"""Many updates of anything in one dispatch: the loop that meta-training and SAC share."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from idaq.types import Key, Metrics, Scalar

S = TypeVar("S")
Update = Callable[[S, Key], tuple[S, Metrics]]


def repeat(
    update: Update[S], state: S, key: Key, first: Scalar | int, num: Scalar | int
) -> tuple[S, Metrics]:
    """`num` updates, the first of which has number `first`; metrics are means over them.

    The key of an update depends on `key` and its number alone.
    """
    shapes = jax.eval_shape(update, state, key)[1]
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

    def body(offset: Scalar, loop: tuple[S, Metrics]) -> tuple[S, Metrics]:
        state, sums = loop
        state, metrics = update(state, jax.random.fold_in(key, first + offset))
        return state, jax.tree.map(jnp.add, sums, metrics)

    state, sums = jax.lax.fori_loop(0, num, body, (state, zeros))
    return state, jax.tree.map(lambda total: total / num, sums)
