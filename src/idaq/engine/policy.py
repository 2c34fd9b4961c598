"""What acts: three pure functions, for JAX environments and simulators alike."""

from typing import Protocol

import jax

from idaq.types import Action, Carry, Hypothesis, Key, Params, Scalar


class Policy(Protocol):
    """How actions are chosen. `carry` is memory within an episode; () for feed-forward agents."""

    def init_carry(self, params: Params, hypothesis: Hypothesis) -> Carry: ...

    def act(
        self, params: Params, hypothesis: Hypothesis, carry: Carry, obs: jax.Array, key: Key
    ) -> tuple[Action, Carry]: ...

    def take_reward(self, params: Params, carry: Carry, reward: Scalar) -> Carry: ...

    def __hash__(self) -> int: ...
