"""The behaviour policy that knows nothing: every action within the bounds is equally likely."""

from dataclasses import dataclass

import jax

from idaq.algos.data import unscale_action
from idaq.types import Action, Carry, Key, Params, PyTree, Scalar, Spec


@dataclass(frozen=True)
class UniformPolicy:
    """A rollout policy without parameters."""

    spec: Spec

    def init_carry(self, params: Params, hypothesis: PyTree) -> Carry:
        return ()

    def act(
        self, params: Params, hypothesis: PyTree, carry: Carry, obs: jax.Array, key: Key
    ) -> tuple[Action, Carry]:
        drawn = jax.random.uniform(key, (self.spec.action_dim,), minval=-1.0, maxval=1.0)
        return unscale_action(self.spec, drawn), carry

    def take_reward(self, params: Params, carry: Carry, reward: Scalar) -> Carry:
        return carry
