"""What an adapter is: how hypotheses are proposed and what experience is believed.

An adapter is a frozen, hashable dataclass of options bound to an algorithm. Its methods are pure
functions for *one* task, and a hypothesis is one vector; the meta-test loop batches them over tasks
and seeds with `vmap`, so that hypotheses have leading axes everywhere outside. The agent's
parameters are an argument.
An adapter sees observations, actions and rewards, and never which task it is in.
"""

from typing import Protocol

import jax

from idaq.types import Episodes, Hypothesis, Key, PyTree

Record = dict[str, jax.Array]  # per episode [num_episodes], per task []


class Adapter(Protocol):
    """Propose, observe, ..., propose, observe, commit, for a fixed number of episodes."""

    @property
    def version(self) -> int:
        """Raised whenever results change."""
        ...

    @property
    def num_episodes(self) -> int:
        """The whole budget; its last episode runs the committed hypothesis and is the score."""
        ...

    def init(self, agent: PyTree, key: Key, given: Episodes | None) -> PyTree:
        """The state before the first episode; `given` is expert context, if the adapter uses it."""
        ...

    def propose(self, agent: PyTree, state: PyTree) -> Hypothesis:
        """The hypothesis of the next episode."""
        ...

    def observe(
        self, agent: PyTree, state: PyTree, hypothesis: Hypothesis, episode: Episodes
    ) -> PyTree:
        """The state after an episode [horizon, ...] under a hypothesis."""
        ...

    def commit(self, agent: PyTree, state: PyTree) -> Hypothesis:
        """The final hypothesis, were the budget to end now.

        The last episode runs it. It is also asked for after every other one, and what it says then
        tells the score of a shorter budget; so it must make sense at any time, from what was
        observed so far.
        """
        ...

    def record(self, state: PyTree) -> Record:
        """The reasons: per episode `uncertainty` and `kept`, per task `threshold` and `tied`."""
        ...
