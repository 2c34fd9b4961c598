"""Every draw of the meta-test loop has a key of its own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idaq.engine.meta_test import evaluate
from idaq.engine.rollout import Outcomes
from idaq.types import Array, Episodes, PyTree
from tests import fakes, tiny

FAMILY = fakes.Targets(((0.0, 0.0), (2.0, 1.0), (-3.0, 0.5)))


class Tells:
    """An adapter that only records the key it began with."""

    version, num_episodes = 1, 3

    def init(self, agent: PyTree, key: Array, given: Episodes | None) -> Any:
        return jax.random.key_data(key)

    def propose(self, agent: PyTree, state: PyTree) -> Any:
        return agent["prior"][0]

    def observe(self, agent: PyTree, state: PyTree, hypothesis: PyTree, episode: Episodes) -> Any:
        return state

    def commit(self, agent: PyTree, state: PyTree) -> Any:
        return agent["prior"][0]

    def record(self, state: PyTree) -> dict[str, Any]:
        return {"key": state}


class Listens:
    """Rollouts that record the keys of their episodes, all of equal length."""

    def __init__(self) -> None:
        self.family = FAMILY
        self.keys: list[Any] = []
        self.outcome_keys: list[Any] = []

    def run(self, agents: PyTree, hypotheses: PyTree, tasks: Array, keys: Array) -> Episodes:
        self.keys.append(np.asarray(jax.random.key_data(keys)))
        nothing = jnp.zeros((*tasks.shape, fakes.HORIZON))
        return Episodes(
            obs=nothing[..., None],
            action=jnp.stack([nothing, nothing], axis=-1),
            reward=nothing,
            next_obs=nothing[..., None],
            terminated=nothing > 0,
            success=nothing > 0,
            valid=nothing == 0,
        )

    def outcomes(self, agents: PyTree, hypotheses: PyTree, tasks: Array, keys: Array) -> Outcomes:
        self.outcome_keys.append(np.asarray(jax.random.key_data(keys)))
        returns = np.zeros(hypotheses.shape[:3], np.float32)
        return Outcomes(returns, returns > 0)


def test_no_key_is_used_twice() -> None:
    """Across seeds and tasks, and the initialisation and the episodes of each."""
    rollouts = Listens()
    agents = jax.tree.map(lambda x: jnp.stack([x, x]), fakes.agent([(1.0, 0.0)]))
    found = evaluate(rollouts, Tells(), agents, jnp.tile(jnp.arange(3), (2, 1)), tiny.keys(0, 1))
    used = np.stack([found["key"], *rollouts.keys])
    assert used.shape == (1 + Tells.num_episodes, 2, 3, 2)  # draws, seeds, tasks, a key
    assert len({tuple(key) for key in used.reshape(-1, 2).tolist()}) == 4 * 2 * 3
    np.testing.assert_array_equal(rollouts.outcome_keys, rollouts.keys[-1:])  # the final ones
