"""The protocol of fine-tuning, on an algorithm that only counts its steps."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.fine_tuning import FineTuning
from idaq.settings import AdaptConfig
from idaq.types import Array, Episodes, PyTree
from tests import fakes


@dataclass(frozen=True)
class Counts(fakes.ActsAsBelieved):
    """Networks are two numbers: the episodes of the inner step, and those of every step after."""

    def initial(self, agent: PyTree) -> Any:
        return jnp.zeros(2)

    def inner_step(self, agent: PyTree, episodes: Episodes, keep: Array) -> Any:
        return jnp.stack([keep.sum().astype(jnp.float32), jnp.zeros(())])

    def fine_tune(
        self,
        agent: PyTree,
        adapted: Any,
        episodes: Episodes,
        keep: Array,
        num_steps: int,
        learning_rate: float,
    ) -> Any:
        return adapted.at[1].multiply(10.0).at[1].add(keep.sum())

    def hypothesis(self, adapted: Any, explores: Array | bool) -> Any:
        return jnp.append(adapted, jnp.where(explores, 1.0, 0.0))


def episode(number: int) -> Episodes:
    action = jnp.full(2, float(number))
    return fakes.episode(action, jnp.zeros(2), jnp.asarray(2), jnp.zeros(fakes.HORIZON))


@pytest.mark.parametrize(("num_reference", "num_iterative"), [(3, 3), (1, 2), (2, 1)])
def test_one_inner_step_and_then_fine_tuning_on_everything(
    num_reference: int, num_iterative: int
) -> None:
    config = AdaptConfig(num_reference_episodes=num_reference, num_iterative_episodes=num_iterative)
    adapter = FineTuning(config, Counts())
    total = num_reference + num_iterative
    assert adapter.num_episodes == total
    agent = fakes.agent([(0.0, 0.0)])
    state = adapter.init(agent, jax.random.key(0), None)
    expected, stepped, tuned = [], 0, 0
    ran = []
    for number in range(total):
        is_last = number == total - 1
        explores = 0 if number == 0 or is_last else 1  # the first and the last act as they are
        expected.append([stepped, tuned, explores])
        committed = adapter.commit(agent, state).tolist()  # what is adapted so far, as it is
        assert committed == [stepped, tuned, 0]
        choose = adapter.commit if is_last else adapter.propose
        hypothesis = choose(agent, state)
        ran.append(hypothesis.tolist())
        state = adapter.observe(agent, state, hypothesis, episode(number))
        if number + 1 == num_reference:
            stepped = num_reference
        elif number + 1 > num_reference:
            tuned = 10 * tuned + number + 1
    assert ran == expected
    assert adapter.record(state)["kept"].tolist() == [True] * (total - 1) + [False]
    np.testing.assert_array_equal(state.memory.episodes.action[:, 0, 0], np.arange(total))
