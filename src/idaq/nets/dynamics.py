"""The ensemble of L reward models r(s, a, z) and dynamics models p(s, a, z) of Section 4.2."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from idaq.nets import mlp
from idaq.types import Array, Key


class Ensemble(NamedTuple):
    """Parameters; every leaf has a leading model axis."""

    reward: mlp.Layers
    dynamics: mlp.Layers


def init(
    key: Key, size: int, obs_dim: int, action_dim: int, hidden: tuple[int, ...], latent: int
) -> Ensemble:
    """`size` models that differ in their initial weights."""
    inputs = obs_dim + latent + action_dim
    reward_key, dynamics_key = jax.random.split(key)
    init_many = jax.vmap(mlp.init, in_axes=(0, None))
    return Ensemble(
        reward=init_many(jax.random.split(reward_key, size), (inputs, *hidden, 1)),
        dynamics=init_many(jax.random.split(dynamics_key, size), (inputs, *hidden, obs_dim)),
    )


def predict(ensemble: Ensemble, obs: Array, z: Array, action: Array) -> tuple[jax.Array, jax.Array]:
    """Predicted rewards [L, ...] and next observations [L, ..., obs_dim]."""
    inputs = jnp.concatenate([obs, z, action], axis=-1)
    apply_many = jax.vmap(mlp.apply, in_axes=(0, None))
    return apply_many(ensemble.reward, inputs)[..., 0], apply_many(ensemble.dynamics, inputs)
