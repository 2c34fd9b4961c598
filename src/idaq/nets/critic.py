"""Scalar networks: Q(s, a, z), the dual critic c(s, a, z) (the same shape), and V(s, z)."""

from typing import Any

import jax.numpy as jnp

from idaq.nets import mlp
from idaq.types import Array, PyTree


def init_q(
    key: Array, obs_dim: int, action_dim: int, hidden: tuple[int, ...], latent: int
) -> PyTree:
    """Parameters of a network of state, embedding and action."""
    return mlp.init(key, (obs_dim + latent + action_dim, *hidden, 1))


def init_v(key: Array, obs_dim: int, hidden: tuple[int, ...], latent: int) -> PyTree:
    """Parameters of a network of state and embedding."""
    return mlp.init(key, (obs_dim + latent, *hidden, 1))


def q_value(params: PyTree, obs: Array, z: Array, action: Array) -> Any:
    """[...]; a gradient with respect to the action costs no more than the action's columns."""
    return mlp.apply(params, jnp.concatenate([obs, z], axis=-1), last=action)[..., 0]


def twin_q(q: tuple[PyTree, PyTree], obs: Array, z: Array, action: Array) -> list[Any]:
    """Both values, each [...]."""
    return [q_value(each, obs, z, action) for each in q]


def v_value(params: PyTree, obs: Array, z: Array) -> Any:
    """[...]."""
    return mlp.apply(params, jnp.concatenate([obs, z], axis=-1))[..., 0]
