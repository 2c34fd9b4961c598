"""Policies π(a|s, z) with actions in [-1, 1]: tanh-Gaussian and deterministic."""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from idaq.nets import mlp
from idaq.types import Action, Array, Key

LOG_STD_MIN, LOG_STD_MAX = -20.0, 0.0
SOFT_LOG_STD_MIN, SOFT_LOG_STD_MAX = -4.0, 2.0
OUTPUT_SCALE = 0.1  # so that initial actions are near zero

# How the log standard deviation is bounded: cut off, or squashed, which keeps a gradient outside.
Bounds = Literal["clip", "soft"]


class Sample(NamedTuple):
    """Actions drawn from a tanh-Gaussian policy."""

    action: Action  # [..., action_dim]
    log_prob: jax.Array  # [...]
    mean: jax.Array  # [..., action_dim], before tanh
    log_std: jax.Array  # [..., action_dim]


def init_gaussian(
    key: Key, obs_dim: int, action_dim: int, hidden: tuple[int, ...], latent: int
) -> mlp.Layers:
    """Parameters of a tanh-Gaussian policy."""
    return mlp.init(key, (obs_dim + latent, *hidden, 2 * action_dim), OUTPUT_SCALE)


def init_deterministic(
    key: Key, obs_dim: int, action_dim: int, hidden: tuple[int, ...], latent: int
) -> mlp.Layers:
    """Parameters of a deterministic tanh policy."""
    return mlp.init(key, (obs_dim + latent, *hidden, action_dim), OUTPUT_SCALE)


def gaussian(
    params: mlp.Layers, obs: Array, z: Array, bounds: Bounds = "clip"
) -> tuple[jax.Array, jax.Array]:
    """Mean and log standard deviation before tanh."""
    mean, log_std = jnp.split(mlp.apply(params, jnp.concatenate([obs, z], axis=-1)), 2, axis=-1)
    if bounds == "clip":
        return mean, jnp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX)
    share = 0.5 * (jnp.tanh(log_std) + 1.0)
    return mean, SOFT_LOG_STD_MIN + share * (SOFT_LOG_STD_MAX - SOFT_LOG_STD_MIN)


def sample(params: mlp.Layers, obs: Array, z: Array, key: Key, bounds: Bounds = "clip") -> Sample:
    """A reparametrised action and its log density under the squashed Gaussian."""
    mean, log_std = gaussian(params, obs, z, bounds)
    noise = jax.random.normal(key, mean.shape)
    before_tanh = mean + jnp.exp(log_std) * noise
    log_density = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
    # log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2x)), stable for large |x|
    log_slope = 2.0 * (math.log(2.0) - before_tanh - jax.nn.softplus(-2.0 * before_tanh))
    log_prob = (log_density - log_slope).sum(axis=-1)
    return Sample(jnp.tanh(before_tanh), log_prob, mean, log_std)


def gaussian_mode(params: mlp.Layers, obs: Array, z: Array) -> Action:
    """The action at meta-test time: tanh of the mean."""
    return jnp.tanh(gaussian(params, obs, z)[0])


def deterministic(
    params: mlp.Layers, obs: Array, z: Array, dropout: mlp.Dropout | None = None
) -> Action:
    """The action of a deterministic policy."""
    return jnp.tanh(mlp.apply(params, jnp.concatenate([obs, z], axis=-1), dropout=dropout))
