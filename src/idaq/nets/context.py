"""The context encoder q(z|c) of Section 2.3: transitions in, a task embedding z out.

Each transition (s, a, r) is embedded by itself into [-1, 1]^latent_dim, and the embedding of a
context is the mean over its transitions, so the order and the number of them do not matter.
"""

from typing import Any

import jax.numpy as jnp

from idaq.nets import mlp
from idaq.types import Array, PyTree


def init(key: Array, obs_dim: int, action_dim: int, hidden: tuple[int, ...], latent: int) -> PyTree:
    """Parameters of the per-transition encoder."""
    return mlp.init(key, (obs_dim + action_dim + 1, *hidden, latent))


def embed_transitions(params: PyTree, obs: Array, action: Array, reward: Array) -> Any:
    """[..., latent_dim], one embedding per transition."""
    return jnp.tanh(mlp.apply(params, jnp.concatenate([obs, action, reward[..., None]], axis=-1)))


def embed_context(
    params: PyTree, obs: Array, action: Array, reward: Array, weight: Array | None = None
) -> Any:
    """[..., n, ·] transitions to [..., latent_dim]; `weight` [..., n] leaves out padding."""
    each = embed_transitions(params, obs, action, reward)
    if weight is None:
        return each.mean(axis=-2)
    total = jnp.maximum(weight.sum(axis=-1, keepdims=True), 1.0)
    return (each * weight[..., None]).sum(axis=-2) / total
