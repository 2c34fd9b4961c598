"""Expert context: the hypothesis comes from logged episodes of the test task itself.

This is the offline adaptation that the paper compares with. It is the only adapter that is given
data of the test task; for a truly new task there is no such data.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from idaq.adapt.base import Record
from idaq.algos.base import Algorithm
from idaq.settings import AdaptConfig
from idaq.types import Episodes, Hypothesis, Key, PyTree


class ExpertState(NamedTuple):
    given: Episodes  # [num_expert_episodes, horizon, ...]


@dataclass(frozen=True)
class ExpertContext:
    """One episode, run with q(z | the given episodes)."""

    config: AdaptConfig
    algorithm: Algorithm
    version: int = 1

    @property
    def num_episodes(self) -> int:
        return 1

    def init(self, agent: PyTree, key: Key, given: Episodes | None) -> ExpertState:
        if given is None:
            raise ValueError("expert context was not given")
        return ExpertState(given)

    def propose(self, agent: PyTree, state: ExpertState) -> Hypothesis:
        return self.commit(agent, state)

    def observe(
        self,
        agent: PyTree,
        state: ExpertState,
        hypothesis: Hypothesis,
        episode: Episodes,
    ) -> ExpertState:
        return state

    def commit(self, agent: PyTree, state: ExpertState) -> Hypothesis:
        everything = jnp.ones(state.given.reward.shape[0], bool)
        return self.algorithm.encode(agent, state.given, everything)

    def record(self, state: ExpertState) -> Record:
        return {"kept": jnp.zeros(1, bool)}
