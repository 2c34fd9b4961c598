"""The context encoder q(z|c) of Section 2.3: transitions in, a task embedding z out.

FOCAL's is deterministic: each transition (s, a, r) is embedded by itself into [-1, 1]^latent_dim,
and the embedding of a context is the mean over its transitions, so the order and the number of them
do not matter. PEARL's is probabilistic: each transition gives a Gaussian factor, and the posterior
of a context is their normalised product.

Where tasks differ in their dynamics, an encoder needs to see what an action led to: s' as well.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from idaq.nets import mlp
from idaq.types import Array, Key

MIN_VARIANCE = 1e-7


class Inputs(NamedTuple):
    """What an encoder sees of transitions, [..., ·]."""

    obs: Array
    action: Array
    reward: Array  # [...]
    next_obs: Array | None = None


def init(
    key: Key,
    obs_dim: int,
    action_dim: int,
    hidden: tuple[int, ...],
    latent: int,
    next_obs: bool = False,
) -> mlp.Layers:
    """Parameters of the per-transition encoder."""
    return mlp.init(key, (obs_dim * (1 + next_obs) + action_dim + 1, *hidden, latent))


def embed_transitions(params: mlp.Layers, inputs: Inputs) -> jax.Array:
    """[..., latent_dim], one embedding per transition."""
    return jnp.tanh(_apply(params, inputs))


def embed_context(params: mlp.Layers, inputs: Inputs, weight: Array | None = None) -> jax.Array:
    """[..., n, ·] transitions to [..., latent_dim]; `weight` [..., n] leaves out padding."""
    each = embed_transitions(params, inputs)
    if weight is None:
        return each.mean(axis=-2)
    total = jnp.maximum(weight.sum(axis=-1, keepdims=True), 1.0)
    return (each * weight[..., None]).sum(axis=-2) / total


def posterior(
    params: mlp.Layers, inputs: Inputs, weight: Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """[..., n, ·] transitions to the mean and variance of q(z|c), each [..., latent_dim].

    The network's outputs are a factor's mean and, through softplus, its variance.
    """
    mean, spread = jnp.split(_apply(params, inputs), 2, axis=-1)
    return product_of_gaussians(mean, jax.nn.softplus(spread), weight)


def product_of_gaussians(
    mean: Array, variance: Array, weight: Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of the normalised product over the axis before the last.

    A factor of weight 0 is left out; without any, the result is N(0, I).
    """
    precision = 1.0 / jnp.maximum(variance, MIN_VARIANCE)
    if weight is not None:
        precision = precision * weight[..., None]
    total = precision.sum(axis=-2)
    is_empty = total == 0.0
    total = jnp.where(is_empty, 1.0, total)
    return (mean * precision).sum(axis=-2) / total, 1.0 / total


def _apply(params: mlp.Layers, inputs: Inputs) -> jax.Array:
    seen = [inputs.obs, inputs.action, inputs.reward[..., None]]
    seen += [] if inputs.next_obs is None else [inputs.next_obs]
    return mlp.apply(params, jnp.concatenate(seen, axis=-1))
