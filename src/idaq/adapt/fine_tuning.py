"""Online adaptation by gradient steps: MAML's protocol with MACAW's losses.

The other adapters work unchanged with a gradient-based algorithm: its `encode` is the inner step on
the context that is believed. `expert-context` steps on the given episodes; `idaq-...` is
gradient-based IDAQ, whose reference hypotheses are the policies adapted to training tasks and whose
step is taken only on the episodes that pass the threshold; `posterior` steps on all of them.
`FineTuning` is what the paper compares with: it starts from the initialisation, takes the inner
step on its first n_r episodes, and after each further one is fine-tuned on all of them.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from idaq.adapt.base import Record
from idaq.adapt.memory import Memory, empty_memory, remember
from idaq.algos.base import Algorithm
from idaq.settings import AdaptConfig
from idaq.types import Episodes, Hypothesis, Key, Mask, Params, PyTree, Scalar


class GradientAlgorithm(Algorithm, Protocol):
    """An algorithm whose hypotheses are networks after gradient steps."""

    def initial(self, agent: PyTree) -> Params:
        """The networks before any step."""
        ...

    def inner_step(self, agent: PyTree, episodes: Episodes, keep: Mask) -> Params:
        """The networks after the inner step on the kept episodes."""
        ...

    def fine_tune(
        self,
        agent: PyTree,
        adapted: Params,
        episodes: Episodes,
        keep: Mask,
        num_steps: int,
        learning_rate: float,
    ) -> Params:
        """The networks after further steps on the kept episodes."""
        ...

    def hypothesis(self, adapted: Params, explores: Scalar | bool) -> Hypothesis:
        """What `act` takes; one that explores adds noise to its actions."""
        ...


class FineTuningState(NamedTuple):
    memory: Memory
    adapted: Params


@dataclass(frozen=True)
class FineTuning:
    """The initialisation for n_r episodes, one inner step on them, then fine-tuning on all.

    The first episode shows the initialisation as it is and the last one the result; those between
    explore with the policy's own noise.
    """

    config: AdaptConfig
    algorithm: GradientAlgorithm
    version: int = 1

    @property
    def num_episodes(self) -> int:
        return self.config.num_episodes

    def init(self, agent: PyTree, key: Key, given: Episodes | None) -> FineTuningState:
        adapted = self.algorithm.initial(agent)
        hypothesis = self.algorithm.hypothesis(adapted, False)
        memory = empty_memory(self.algorithm.spec, self.num_episodes, hypothesis)
        return FineTuningState(memory, adapted)

    def propose(self, agent: PyTree, state: FineTuningState) -> Hypothesis:
        return self.algorithm.hypothesis(state.adapted, state.memory.count > 0)

    def observe(
        self, agent: PyTree, state: FineTuningState, hypothesis: Hypothesis, episode: Episodes
    ) -> FineTuningState:
        memory = remember(state.memory, hypothesis, episode)
        seen = jnp.arange(self.num_episodes) < memory.count

        def adapt(adapted: Params) -> Params:
            stepped = self.algorithm.inner_step(agent, memory.episodes, seen)
            tuned = self.algorithm.fine_tune(
                agent,
                adapted,
                memory.episodes,
                seen,
                self.config.fine_tuning_steps,
                self.config.fine_tuning_rate,
            )
            is_first = memory.count == self.config.num_reference_episodes
            return jax.tree.map(lambda a, b: jnp.where(is_first, a, b), stepped, tuned)

        is_due = memory.count >= self.config.num_reference_episodes
        adapted = jax.lax.cond(is_due, adapt, lambda same: same, state.adapted)
        return FineTuningState(memory, adapted)

    def commit(self, agent: PyTree, state: FineTuningState) -> Hypothesis:
        return self.algorithm.hypothesis(state.adapted, False)

    def record(self, state: FineTuningState) -> Record:
        return {"kept": jnp.arange(self.num_episodes) < state.memory.count - 1}
