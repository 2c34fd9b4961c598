"""What an adapter has seen: all episodes so far, and the hypotheses that they ran under."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from idaq.types import Episodes, Hypotheses, Hypothesis, Spec


class Memory(NamedTuple):
    """All episodes so far, in fixed-size buffers."""

    episodes: Episodes  # [num_episodes, horizon, ...]
    hypotheses: Hypotheses  # [num_episodes, latent_dim]
    count: Any  # [], how many have been run; a Scalar, but tuples have a `count` of their own


def empty_memory(spec: Spec, num_episodes: int, hypothesis: Hypothesis) -> Memory:
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


def remember(memory: Memory, hypothesis: Hypothesis, episode: Episodes) -> Memory:
    """Append one episode."""
    episodes = jax.tree.map(
        lambda all_, one: all_.at[memory.count].set(one), memory.episodes, episode
    )
    hypotheses = memory.hypotheses.at[memory.count].set(hypothesis)
    return Memory(episodes, hypotheses, memory.count + 1)
