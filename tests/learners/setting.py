"""A learner's setting small enough for loops: two or four inputs, four hidden units, five rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idaq.types import PyTree, Spec, Transition
from tests import oracles

SPEC = Spec(obs_dim=2, action_dim=2, action_low=(-1.0, -1.0), action_high=(1.0, 1.0), horizon=5)
LATENT_DIM = 2
NUM_ROWS = 5


def batches(num: int) -> tuple[Transition, Any]:
    """Batches [num, rows, ...] and the embedding of each row's task."""
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.normal(size=(num, NUM_ROWS, *shape)), jnp.float32)

    rows = Transition(
        obs=normal(SPEC.obs_dim),
        action=jnp.tanh(normal(SPEC.action_dim)),
        reward=normal(),
        next_obs=normal(SPEC.obs_dim),
        terminated=jnp.asarray([[0.0, 1.0, 0.0, 0.0, 1.0]] * num),
    )
    return rows, jnp.tanh(normal(LATENT_DIM)[0])


def shaken(params: PyTree, seed: int, scale: float = 0.5) -> PyTree:
    """Parameters moved at random, so that no bias and no output is near zero."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda x: x + jnp.asarray(scale * rng.normal(size=x.shape), jnp.float32), params
    )


def in_float64(params: PyTree) -> Any:
    """Networks for the oracles."""
    return jax.tree.map(lambda x: np.asarray(x, np.float64), params)


def rows_of(rows: Transition, z: Any, index: int) -> oracles.Rows:
    """One batch for the oracles."""
    fields = [np.asarray(field[index], np.float64) for field in rows]
    fields.append(np.asarray(z, np.float64))
    return oracles.Rows(*fields)


def moved_alike(
    actual: PyTree, expected: oracles.Layers, gradient: oracles.Floats, learning_rate: float
) -> bool:
    """Whether parameters ended where Adam takes them.

    A first step of Adam is the sign of the gradient, so entries whose gradient is lost in
    rounding are left out, and those without any must not have moved.
    """
    after, wanted = oracles.flatten(in_float64(actual)), oracles.flatten(expected)
    clear = (np.abs(gradient) > 1e-4) | (gradient == 0.0)
    assert clear.mean() > 0.5
    return bool(np.allclose(after[clear], wanted[clear], rtol=0.0, atol=0.02 * learning_rate))
