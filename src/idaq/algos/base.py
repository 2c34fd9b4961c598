"""The contract that every meta-training algorithm keeps.

An algorithm is a frozen dataclass of its configuration and the family's `Spec`: hashable, so
that it is a static argument of a compiled program. Its methods are pure functions of pytrees.
The data is an argument, never a closure; randomness comes from one key, split by name. The
*agent* is the part of the trained state that adaptation needs: networks, normaliser, and the
prior (the hypotheses of the training tasks), so that adapting never opens training data.
"""

from typing import Protocol

import jax

from idaq.algos.data import TrainData
from idaq.algos.logs import Logs
from idaq.settings import AlgorithmConfig
from idaq.types import (
    Action,
    Carry,
    Episodes,
    Hypotheses,
    Hypothesis,
    Key,
    Mask,
    Metrics,
    PyTree,
    Scalar,
    Spec,
)


class Algorithm(Protocol):
    """What training, the meta-test loop and the adapters use."""

    @property
    def name(self) -> str:
        """The name of its entry, which also has its version."""
        ...

    @property
    def config(self) -> AlgorithmConfig: ...

    @property
    def spec(self) -> Spec: ...

    @property
    def phases(self) -> tuple[tuple[int, "Algorithm"], ...]:
        """(first update, the algorithm as it trains from there on); usually one: ((0, self),).

        All of them share one state.
        """
        ...

    @property
    def return_discount(self) -> float | None:
        """The discount of the Monte-Carlo returns that `data` must have, if it needs any."""
        ...

    @property
    def relabels(self) -> bool:
        """Whether it needs the family's reward function."""
        ...

    def init(self, data: TrainData, key: Key) -> PyTree:
        """The first state of training."""
        ...

    def update(self, state: PyTree, data: TrainData, key: Key) -> tuple[PyTree, Metrics]:
        """One meta-update: the next state, and metrics to log."""
        ...

    def finish(self, state: PyTree, data: TrainData) -> PyTree:
        """The agent of a trained state, with its prior filled in."""
        ...

    def agent_shapes(self, num_train_tasks: int) -> PyTree:
        """The shapes of an agent, to read one back from a file."""
        ...

    def encode(self, agent: PyTree, episodes: Episodes, keep: Mask) -> Hypothesis:
        """The hypothesis inferred from the episodes [num, horizon, ...] that `keep` marks."""
        ...

    def prior(self, agent: PyTree) -> Hypotheses:
        """The hypotheses of the training tasks."""
        ...

    def logged_return(self, agent: PyTree) -> Scalar:
        """The mean return of the training tasks' logged episodes."""
        ...

    def read(self, agent: PyTree, episode: Episodes, hypothesis: Hypothesis) -> PyTree:
        """What the agent's judge says of one episode [horizon, ...] under a hypothesis."""
        ...

    def init_carry(self, agent: PyTree, hypothesis: Hypothesis) -> Carry:
        """Memory at the start of an episode; () for feed-forward agents."""
        ...

    def act(
        self, agent: PyTree, hypothesis: Hypothesis, carry: Carry, obs: jax.Array, key: Key
    ) -> tuple[Action, Carry]:
        """The meta-test action, in the environment's units."""
        ...

    def take_reward(self, agent: PyTree, carry: Carry, reward: Scalar) -> Carry:
        """The memory after a reward."""
        ...

    def __hash__(self) -> int: ...


class RemembersLogs(Protocol):
    """An algorithm whose agents may remember some of the logs."""

    def logs(self, agent: PyTree) -> Logs | None:
        """Logged transitions of the training tasks, if the agent remembers any."""
        ...
