"""Held-out tasks do not affect training: the agent is the same whatever their logs are."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from idaq.algos.base import Algorithm
from idaq.engine.loading import fit_normaliser, mean_return
from idaq.engine.starts import start_std, unrelated_starts
from idaq.engine.train import one_seed, train_data
from idaq.storage.dataset import Dataset, open_dataset, write_dataset
from tests import tiny
from tests.storage.test_dataset import METADATA

NUM_TASKS, EPISODES, STEPS = 14, 4, tiny.SPEC.horizon
HELD_OUT = (0, 9, 13)
TRAIN = np.setdiff1d(np.arange(NUM_TASKS), HELD_OUT)
ALGORITHMS: dict[str, Algorithm] = {
    "focal": tiny.changed("td3-bc+models", hide_unrelated=True, context_shift=1.0),
    "op-cl": tiny.BASELINES["op-cl"],
    "macaw": tiny.BASELINES["macaw"],
    "borel": tiny.BASELINES["borel, oracle"],
}


def logs() -> dict[str, Any]:
    """A hand that moves towards a goal, and two observed numbers that do not matter."""
    rng = np.random.default_rng(6)
    goal, thing = rng.normal(size=NUM_TASKS), rng.normal(size=(NUM_TASKS, 2))
    task = np.repeat(np.arange(NUM_TASKS), EPISODES * STEPS)
    share = np.tile(np.arange(STEPS + 1) / STEPS, (NUM_TASKS * EPISODES, 1))
    before, after = share[:, :-1].ravel(), share[:, 1:].ravel()
    ends = np.arange(len(task)) % STEPS == STEPS - 1
    return {
        "observations": np.c_[before * goal[task], thing[task]],
        "actions": 0.4 * rng.normal(size=(len(task), 2)),
        "rewards": rng.normal(size=len(task)),
        "next_observations": np.c_[after * goal[task], thing[task]],
        "terminated": np.zeros(len(task), bool),
        "truncated": ends,
        "episode_offsets": np.arange(0, len(task) + 1, STEPS),
        "episode_task": np.repeat(np.arange(NUM_TASKS), EPISODES),
    }


def poisoned() -> dict[str, Any]:
    """The same, with extreme values in the held-out tasks."""
    arrays, rng = logs(), np.random.default_rng(7)
    rows = np.isin(np.repeat(arrays["episode_task"], STEPS), HELD_OUT)
    for name in ("observations", "actions", "rewards", "next_observations"):
        shape = arrays[name][rows].shape
        arrays[name][rows] = 1e6 + 3e6 * rng.normal(size=shape)
    return arrays


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    def stored(name: str, arrays: dict[str, Any]) -> Dataset:
        place: Path = tmp_path_factory.mktemp("held-out") / name
        write_dataset(place, arrays, METADATA | {"num_tasks": NUM_TASKS})
        return open_dataset(place, tiny.SPEC)

    return stored("clean", logs()), stored("poisoned", poisoned())


def test_every_statistic_is_of_the_training_tasks(pair: tuple[Dataset, Dataset]) -> None:
    clean, other = pair
    assert mean_return(clean, TRAIN) == mean_return(other, TRAIN)
    assert tiny.same(fit_normaliser(clean, TRAIN, 0.05), fit_normaliser(other, TRAIN, 0.05))
    np.testing.assert_array_equal(start_std(clean, TRAIN), start_std(other, TRAIN))
    np.testing.assert_array_equal(unrelated_starts(clean, TRAIN), unrelated_starts(other, TRAIN))


def test_the_poison_shows_where_its_tasks_count(pair: tuple[Dataset, Dataset]) -> None:
    """So the test above and those below would notice it."""
    clean, other = pair
    everything = np.arange(NUM_TASKS)
    assert unrelated_starts(clean, TRAIN).tolist() == [False, True, True]
    assert not unrelated_starts(other, everything).any()
    assert mean_return(other, everything) > 1e5 > abs(mean_return(clean, everything))
    assert (start_std(other, everything) > 1e5).all()
    assert (np.asarray(fit_normaliser(other, everything, 0.05).obs_std) > 1e5).all()


def of_training(data: Any) -> list[Any]:
    """Everything in the training data except the rows of the held-out tasks."""
    own = np.isin(np.repeat(np.arange(NUM_TASKS), EPISODES * STEPS), TRAIN)
    rows = jax.tree.map(lambda x: np.asarray(x)[own], data.rows)
    to_go = None if data.return_to_go is None else np.asarray(data.return_to_go)[own]
    common = data.shared._replace(rows=None, return_to_go=None, reward_of=None)
    return [rows, to_go, *common, *data.seed]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_agent_is_the_same(pair: tuple[Dataset, Dataset], name: str) -> None:
    """Bit for bit: training data, metrics, the networks and the prior."""
    clean, other = (_trained(dataset, name) for dataset in pair)
    for first, second in zip(clean, other, strict=True):
        assert tiny.same(first, second)
    assert all(np.isfinite(leaf).all() for leaf in tiny.leaves(clean[-1]))


def _trained(dataset: Dataset, name: str) -> tuple[Any, Any, Any]:
    """Training data, metrics and the agent after two updates."""
    algorithm = ALGORITHMS[name]
    data = one_seed(train_data(dataset, algorithm, [TRAIN], tiny.reward_of), 0)
    state, metrics = algorithm.init(data, jax.random.key(0)), None
    for index in range(2):
        phase = [each for first, each in algorithm.phases if first <= index][-1]
        state, metrics = tiny.compiled_update(phase)(state, data, jax.random.key(1 + index))
    return of_training(data), metrics, algorithm.finish(state, data)
