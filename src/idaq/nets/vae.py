"""A recurrent variational auto-encoder of tasks: transitions in, a belief over the task out.

A GRU reads embedded transitions (s, a, r); a linear head turns its memory into the mean and log
variance of the belief q(m | what was seen). The decoder predicts the reward of any transition
(s, a, s') from a sample m of the belief.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from idaq.nets import mlp
from idaq.types import Array, Key

LOG_VARIANCE_MIN, LOG_VARIANCE_MAX = -10.0, 4.0


class Encoder(NamedTuple):
    """Parameters of the recurrent part."""

    embed: mlp.Layers  # one layer
    inputs: jax.Array  # [embed_dim, 3 * memory_dim]: reset, update, candidate
    memory: jax.Array  # [memory_dim, 3 * memory_dim]
    bias: jax.Array  # [3 * memory_dim], of the inputs
    memory_bias: jax.Array  # [3 * memory_dim]
    head: mlp.Layers  # one layer


def init_encoder(
    key: Key, obs_dim: int, action_dim: int, embed_dim: int, memory_dim: int, latent: int
) -> Encoder:
    """Weights uniform in ±1/sqrt(fan-in), biases zero."""
    embed_key, inputs_key, memory_key, head_key = jax.random.split(key, 4)
    (inputs,) = mlp.init(inputs_key, (embed_dim, 3 * memory_dim))
    (memory,) = mlp.init(memory_key, (memory_dim, 3 * memory_dim))
    return Encoder(
        embed=mlp.init(embed_key, (obs_dim + action_dim + 1, embed_dim)),
        inputs=inputs["weight"],
        memory=memory["weight"],
        bias=inputs["bias"],
        memory_bias=memory["bias"],
        head=mlp.init(head_key, (memory_dim, 2 * latent)),
    )


def init_decoder(
    key: Key, obs_dim: int, action_dim: int, hidden: tuple[int, ...], latent: int
) -> mlp.Layers:
    """Parameters of the reward decoder."""
    return mlp.init(key, (latent + 2 * obs_dim + action_dim, *hidden, 1))


def no_memory(encoder: Encoder) -> jax.Array:
    """The memory before anything was seen, [memory_dim]."""
    return jnp.zeros(encoder.memory.shape[0])


def advance(encoder: Encoder, memory: Array, obs: Array, action: Array, reward: Array) -> jax.Array:
    """The memory after one more transition, [..., memory_dim]."""
    return _cell(encoder, memory, _project(encoder, obs, action, reward))


def unroll(encoder: Encoder, obs: Array, action: Array, reward: Array, valid: Array) -> jax.Array:
    """The memory before the first and after every transition, [..., steps + 1, memory_dim].

    Steps that did not take place leave it as it is.
    """
    projected = _project(encoder, obs, action, reward)  # all steps at once, out of the loop
    start = jnp.broadcast_to(no_memory(encoder), (*reward.shape[:-1], encoder.memory.shape[0]))

    def step(memory: Array, now: tuple[Array, Array]) -> tuple[jax.Array, jax.Array]:
        inputs, is_valid = now
        memory = jnp.where(is_valid[..., None], _cell(encoder, memory, inputs), memory)
        return memory, memory

    over_time = (jnp.moveaxis(projected, -2, 0), jnp.moveaxis(valid, -1, 0))
    _, memories = jax.lax.scan(step, start, over_time)
    return jnp.moveaxis(jnp.concatenate([start[None], memories]), 0, -2)


def belief(encoder: Encoder, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and log variance of the belief, each [..., latent_dim]."""
    mean, log_variance = jnp.split(mlp.apply(encoder.head, memory), 2, axis=-1)
    return mean, jnp.clip(log_variance, LOG_VARIANCE_MIN, LOG_VARIANCE_MAX)


def decode(
    decoder: mlp.Layers, latent: Array, obs: Array, action: Array, next_obs: Array
) -> jax.Array:
    """The reward [...] that a task `latent` gives for a transition."""
    return mlp.apply(decoder, jnp.concatenate([latent, obs, action, next_obs], axis=-1))[..., 0]


def _project(encoder: Encoder, obs: Array, action: Array, reward: Array) -> jax.Array:
    seen = jnp.concatenate([obs, action, reward[..., None]], axis=-1)
    return jax.nn.relu(mlp.apply(encoder.embed, seen)) @ encoder.inputs + encoder.bias


def _cell(encoder: Encoder, memory: Array, projected: Array) -> jax.Array:
    """One step of the GRU of Cho et al. (2014), with the reset gate after the product."""
    recurrent = memory @ encoder.memory + encoder.memory_bias
    reset, update, candidate = jnp.split(projected, 3, axis=-1)
    reset_memory, update_memory, candidate_memory = jnp.split(recurrent, 3, axis=-1)
    reset = jax.nn.sigmoid(reset + reset_memory)
    update = jax.nn.sigmoid(update + update_memory)
    candidate = jnp.tanh(candidate + reset * candidate_memory)
    return (1.0 - update) * candidate + update * memory
