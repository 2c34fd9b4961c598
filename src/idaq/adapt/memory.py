"""What an adapter has seen: all episodes so far, and the hypotheses that they ran under."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from idaq.types import Array, Episodes, PyTree, Spec


class Memory(NamedTuple):
    """All episodes so far, in fixed-size buffers."""

    episodes: Episodes  # [num_episodes, horizon, ...]
    hypotheses: Any  # [num_episodes, ...]
    count: Any  # how many have been run


def empty_memory(spec: Spec, num_episodes: int, hypothesis: Array) -> Memory:
    """Buffers for `num_episodes`; `hypothesis` gives the shape of one."""
    lead = (num_episodes, spec.horizon)
    episodes = Episodes(
        obs=jnp.zeros((*lead, spec.obs_dim)),
        action=jnp.zeros((*lead, spec.action_dim)),
        reward=jnp.zeros(lead),
        next_obs=jnp.zeros((*lead, spec.obs_dim)),
        terminated=jnp.zeros(lead, bool),
        success=jnp.zeros(lead, bool),
        valid=jnp.zeros(lead, bool),
    )
    hypotheses = jnp.zeros((num_episodes, *hypothesis.shape))
    return Memory(episodes, hypotheses, jnp.zeros((), jnp.int32))


def remember(memory: Memory, hypothesis: PyTree, episode: Episodes) -> Memory:
    """Append one episode."""
    episodes = jax.tree.map(
        lambda all_, one: all_.at[memory.count].set(one), memory.episodes, episode
    )
    hypotheses = memory.hypotheses.at[memory.count].set(hypothesis)
    return Memory(episodes, hypotheses, memory.count + 1)
