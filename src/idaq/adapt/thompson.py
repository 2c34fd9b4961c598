"""Task hypotheses from the prior, and posterior sampling with all online context.

The prior q(z) is the set of the training tasks' embeddings. The reference stage tries some of
them; `Posterior` (the paper's "FOCAL" row) then believes everything it has seen. `Belief` does so
from the start.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from idaq.adapt.config import AdaptConfig
from idaq.algos.base import Algorithm
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


def reference_hypotheses(config: AdaptConfig, prior: Array, key: Array) -> Any:
    """The hypotheses of the reference stage, [num_reference_hypotheses, latent_dim].

    `prior` draws each one at random. `farthest` draws `num_candidates` each time and takes the
    one whose distance to the nearest hypothesis tried so far is largest; `farthest-first` takes
    it from all training tasks. `zero` is no hypothesis at all.
    """
    num, num_tasks = config.num_reference_hypotheses, prior.shape[0]
    if config.reference == "zero":
        return jnp.zeros((num, *prior.shape[1:]))
    if config.reference == "prior":
        return prior[jax.random.randint(key, (num,), 0, num_tasks)]

    def add_one(nearest: Array, step_key: Array) -> tuple[Any, Any]:
        """`nearest` [num_tasks] is each task's distance to the hypotheses tried so far."""
        if config.reference == "farthest-first":
            # at the start all are infinitely far: a random one of them
            candidates = jax.random.permutation(step_key, num_tasks)
        else:
            candidates = jax.random.randint(step_key, (config.num_candidates,), 0, num_tasks)
        chosen = candidates[jnp.argmax(nearest[candidates])]
        distance = jnp.linalg.norm(prior - prior[chosen], axis=-1)
        return jnp.minimum(nearest, distance), prior[chosen]

    start = jnp.full(num_tasks, jnp.inf)
    return jax.lax.scan(add_one, start, jax.random.split(key, num))[1]


class PosteriorState(NamedTuple):
    reference: Any
    memory: Memory


@dataclass(frozen=True)
class Posterior:
    """Prior hypotheses for n_r episodes, then q(z | all episodes so far).

    With n_e > 1 a reference hypothesis runs n_e episodes, as IDAQ's does; afterwards the posterior
    is updated after every episode, which favours this baseline.
    """

    config: AdaptConfig
    algorithm: Algorithm
    version: int = 1

    @property
    def num_episodes(self) -> int:
        return self.config.num_episodes

    def init(self, agent: PyTree, key: Array, given: Episodes | None) -> PosteriorState:
        reference = reference_hypotheses(self.config, self.algorithm.prior(agent), key)
        memory = empty_memory(self.algorithm.spec, self.num_episodes, reference[0])
        return PosteriorState(reference, memory)

    def propose(self, agent: PyTree, state: PosteriorState) -> Any:
        count = state.memory.count
        in_reference = count < self.config.num_reference_episodes
        hypothesis = state.reference[count // self.config.episodes_per_hypothesis]
        return jnp.where(in_reference, hypothesis, self.commit(agent, state))

    def observe(
        self,
        agent: PyTree,
        state: PosteriorState,
        hypothesis: PyTree,
        episode: Episodes,
    ) -> PosteriorState:
        return state._replace(memory=remember(state.memory, hypothesis, episode))

    def commit(self, agent: PyTree, state: PosteriorState) -> Any:
        seen = jnp.arange(self.num_episodes) < state.memory.count
        return self.algorithm.encode(agent, state.memory.episodes, seen)

    def record(self, state: PosteriorState) -> dict[str, Any]:
        kept = jnp.arange(self.num_episodes) < state.memory.count - 1
        return {"kept": kept}


@dataclass(frozen=True)
class Belief(Posterior):
    """What all episodes so far say, from the first one on: there is no reference stage.

    With a recurrent algorithm this is one belief that is carried through the whole budget.
    """

    def propose(self, agent: PyTree, state: PosteriorState) -> Any:
        return self.commit(agent, state)
