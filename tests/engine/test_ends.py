"""What happens after an episode's end does not count anywhere."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idaq.adapt.methods import make_adapter
from idaq.behaviour.collect import collect
from idaq.engine.meta_test import evaluate
from idaq.engine.rollout import ScannedRollouts
from idaq.envs.family import Step
from idaq.settings import AdaptConfig
from idaq.storage.dataset import open_dataset
from idaq.storage.describe import describe
from idaq.types import Array
from tests import fakes, tiny


@dataclass(frozen=True)
class Late(fakes.Targets):
    """Targets that are reached only at one step, before, at or after the episode's end."""

    at: int = 2

    def step(self, task: Array, state: Any, action: Array, key: Array) -> tuple[Any, Step]:
        state, seen = super().step(task, state, action, key)
        return state, seen._replace(success=state[0] == self.at, reward=10.0 ** state[0])


LATE = Late(((0.0, 0.0), (1.0, 0.0), (2.0, 0.0)), lengths=(1, 2, 3))  # over before, at, after it


def test_meta_test() -> None:
    config = AdaptConfig(num_reference_episodes=1, num_iterative_episodes=1)
    believed = fakes.ActsAsBelieved()
    found = evaluate(
        ScannedRollouts(LATE, believed),
        make_adapter("idaq-return", config, believed),
        jax.tree.map(lambda x: x[None], fakes.agent([(0.0, 0.0), (1.0, 0.0)])),
        jnp.arange(3)[None],
        tiny.keys(0),
    )
    np.testing.assert_array_equal(found["success"][0], [[False] * 2, [True] * 2, [True] * 2])
    np.testing.assert_array_equal(found["returns"][0], [[10.0] * 2, [110.0] * 2, [1110.0] * 2])
    np.testing.assert_array_equal(found["uncertainty"], -found["returns"])


def test_collection_and_storage(tmp_path: Path) -> None:
    collect(LATE, tmp_path / "data", trajectories=2, quiet=True)
    dataset = open_dataset(tmp_path / "data", LATE.spec)
    lengths = np.diff(dataset.arrays["episode_offsets"])
    assert lengths.tolist() == [1, 1, 2, 2, 3, 3]
    success = dataset.episode_success()
    assert success is not None
    assert success.tolist() == [False, False, True, True, True, True]
    assert dataset.episode_returns().tolist() == [10.0, 10.0, 110.0, 110.0, 1110.0, 1110.0]
    said = describe(dataset)
    assert said["successes"] == [0, 2, 2]
    assert said["successful_returns"] == [0.0, 110.0, 1110.0]
