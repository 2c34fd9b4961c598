"""The behaviour policy that knows nothing: every action within the bounds is as likely."""

from dataclasses import dataclass

import jax

from idaq.algos.data import unscale_action
from idaq.types import Action, Key, PyTree, Scalar, Spec


@dataclass(frozen=True)
class UniformPolicy:
    """A rollout policy without parameters."""

    spec: Spec

    def init_carry(self, params: PyTree, hypothesis: PyTree) -> PyTree:
        return ()

    def act(
        self, params: PyTree, hypothesis: PyTree, carry: PyTree, obs: jax.Array, key: Key
    ) -> tuple[Action, PyTree]:
        drawn = jax.random.uniform(key, (self.spec.action_dim,), minval=-1.0, maxval=1.0)
        return unscale_action(self.spec, drawn), carry

    def take_reward(self, params: PyTree, carry: PyTree, reward: Scalar) -> PyTree:
        return carry
