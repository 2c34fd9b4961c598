"""What acts: three pure functions, for JAX environments and simulators alike."""

from typing import Any, Protocol

from idaq.types import Array, PyTree


class Policy(Protocol):
    """How actions are chosen. `carry` is memory within an episode; () for feed-forward agents."""

    def init_carry(self, params: PyTree, hypothesis: PyTree) -> PyTree: ...

    def act(
        self, params: PyTree, hypothesis: PyTree, carry: PyTree, obs: Array, key: Array
    ) -> tuple[Any, PyTree]: ...

    def take_reward(self, params: PyTree, carry: PyTree, reward: Array) -> PyTree: ...

    def __hash__(self) -> int: ...
