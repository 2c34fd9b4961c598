"""Scalar networks: Q(s, a, z), the dual critic c(s, a, z) (the same shape), and V(s, z)."""

import jax
import jax.numpy as jnp

from idaq.nets import mlp
from idaq.types import Action, Array, Key

Twins = tuple[mlp.Layers, mlp.Layers]


def init_q(
    key: Key, obs_dim: int, action_dim: int, hidden: tuple[int, ...], latent: int
) -> mlp.Layers:
    """Parameters of a network of state, embedding and action."""
    return mlp.init(key, (obs_dim + latent + action_dim, *hidden, 1))


def init_v(key: Key, obs_dim: int, hidden: tuple[int, ...], latent: int) -> mlp.Layers:
    """Parameters of a network of state and embedding."""
    return mlp.init(key, (obs_dim + latent, *hidden, 1))


def q_value(params: mlp.Layers, obs: Array, z: Array, action: Action) -> jax.Array:
    """[...]; a gradient for the action alone is cheaper (`mlp.apply`)."""
    return mlp.apply(params, jnp.concatenate([obs, z], axis=-1), last=action)[..., 0]


def twin_q(q: Twins, obs: Array, z: Array, action: Action) -> list[jax.Array]:
    """Both values, each [...]."""
    return [q_value(each, obs, z, action) for each in q]


def v_value(params: mlp.Layers, obs: Array, z: Array) -> jax.Array:
    """[...]."""
    return mlp.apply(params, jnp.concatenate([obs, z], axis=-1))[..., 0]
