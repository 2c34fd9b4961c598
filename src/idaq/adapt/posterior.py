"""Posterior sampling with all online context, the paper's "FOCAL" row.

The prior q(z) is the set of the training tasks' embeddings. The reference stage tries some of
them; `Posterior` then believes everything it has seen. `Belief` does so from the start.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from idaq.adapt.base import Record
from idaq.adapt.memory import Memory, empty_memory, remember
from idaq.adapt.search import Searches
from idaq.algos.base import Algorithm
from idaq.settings import AdaptConfig
from idaq.types import Episodes, Hypotheses, Hypothesis, Key, PyTree


class PosteriorState(NamedTuple):
    reference: Hypotheses
    memory: Memory


@dataclass(frozen=True)
class Posterior:
    """Prior hypotheses for n_r episodes, then q(z | all episodes so far).

    With n_e > 1 a reference hypothesis runs n_e episodes, as IDAQ's does; afterwards the posterior
    is updated after every episode, which favours this baseline.
    """

    config: AdaptConfig
    algorithm: Algorithm
    searches: Searches
    version: int = 1

    @property
    def num_episodes(self) -> int:
        return self.config.num_episodes

    def init(self, agent: PyTree, key: Key, given: Episodes | None) -> PosteriorState:
        reference = self.searches.first(self.config, self.algorithm.prior(agent), key)
        memory = empty_memory(self.algorithm.spec, self.num_episodes, reference[0])
        return PosteriorState(reference, memory)

    def propose(self, agent: PyTree, state: PosteriorState) -> Hypothesis:
        count = state.memory.count
        in_reference = count < self.config.num_reference_episodes
        hypothesis = state.reference[count // self.config.episodes_per_hypothesis]
        return jnp.where(in_reference, hypothesis, self.commit(agent, state))

    def observe(
        self,
        agent: PyTree,
        state: PosteriorState,
        hypothesis: Hypothesis,
        episode: Episodes,
    ) -> PosteriorState:
        return state._replace(memory=remember(state.memory, hypothesis, episode))

    def commit(self, agent: PyTree, state: PosteriorState) -> Hypothesis:
        seen = jnp.arange(self.num_episodes) < state.memory.count
        return self.algorithm.encode(agent, state.memory.episodes, seen)

    def record(self, state: PosteriorState) -> Record:
        kept = jnp.arange(self.num_episodes) < state.memory.count - 1
        return {"kept": kept}


@dataclass(frozen=True)
class Belief(Posterior):
    """What all episodes so far say, from the first one on: there is no reference stage.

    With a recurrent algorithm this is one belief that is carried through the whole budget.
    """

    def propose(self, agent: PyTree, state: PosteriorState) -> Hypothesis:
        return self.commit(agent, state)
