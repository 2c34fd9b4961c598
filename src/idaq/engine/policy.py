"""What acts: three pure functions, for JAX environments and simulators alike."""

from typing import Protocol

import jax

from idaq.types import Action, Key, PyTree, Scalar


class Policy(Protocol):
    """How actions are chosen. `carry` is memory within an episode; () for feed-forward agents."""

    def init_carry(self, params: PyTree, hypothesis: PyTree) -> PyTree: ...

    def act(
        self, params: PyTree, hypothesis: PyTree, carry: PyTree, obs: jax.Array, key: Key
    ) -> tuple[Action, PyTree]: ...

    def take_reward(self, params: PyTree, carry: PyTree, reward: Scalar) -> PyTree: ...

    def __hash__(self) -> int: ...
