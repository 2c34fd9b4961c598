"""Whole episodes of a dataset, for expert context."""

from pathlib import Path

import numpy as np
import pytest

from idaq.behaviour.collect import collect
from idaq.engine.logged_episodes import expert_episodes
from idaq.envs import POINT_FAMILIES
from idaq.errors import IdaqError
from idaq.storage.dataset import Dataset, open_dataset
from tests import fakes


def test_expert_episodes_are_whole_episodes_of_their_task(datasets: dict[str, Dataset]) -> None:
    dataset, family = datasets["point-robot"], POINT_FAMILIES["point-robot"]
    tasks = np.array([4, 70])
    chosen = expert_episodes(dataset, family, tasks, 0, 3)
    assert chosen.reward.shape == (2, 3, 20)
    assert chosen.valid.all()
    rewards = dataset.arrays["rewards"].reshape(100, 45, 20)
    observations = dataset.arrays["observations"].reshape(100, 45, 20, 2)
    for index, task in enumerate(tasks):
        numbers = []
        for k in range(3):
            matches = np.flatnonzero((rewards[task] == chosen.reward[index, k]).all(axis=1))
            assert len(matches) == 1
            np.testing.assert_array_equal(chosen.obs[index, k], observations[task, matches[0]])
            numbers.append(int(matches[0]))
        assert len(set(numbers)) == 3


def test_expert_episodes_are_fixed_by_the_seed(datasets: dict[str, Dataset]) -> None:
    dataset, family, tasks = (
        datasets["point-robot"],
        POINT_FAMILIES["point-robot"],
        np.array([4, 70]),
    )
    first, again, other = (expert_episodes(dataset, family, tasks, s, 1) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.reward, again.reward)
    assert not np.array_equal(first.reward, other.reward)
    # they do not depend on which other tasks are asked for
    alone = expert_episodes(dataset, family, tasks[1:], 0, 1)
    np.testing.assert_array_equal(alone.reward[0], first.reward[1])


def test_asking_for_more_expert_episodes_than_there_are(datasets: dict[str, Dataset]) -> None:
    with pytest.raises(IdaqError, match="45 episodes and 46"):
        expert_episodes(
            datasets["point-robot"], POINT_FAMILIES["point-robot"], np.array([4]), 0, 46
        )


def test_shorter_episodes_are_padded_and_marked(tmp_path: Path) -> None:
    family = fakes.Targets(((0.5, 0.0), (2.0, 1.0)), lengths=(1, 2))
    collect(family, tmp_path / "dataset", trajectories=2)
    dataset = open_dataset(tmp_path / "dataset", family.spec)
    chosen = expert_episodes(dataset, family, np.array([1, 0]), 0, 2)
    assert chosen.valid[:, 0].tolist() == [[True, True, False], [True, False, False]]
    assert chosen.terminated[:, 0].tolist() == [[False, True, False], [True, False, False]]
    np.testing.assert_array_equal(chosen.action[0, 1], [(2.0, 1.0), (2.0, 1.0), (0.0, 0.0)])
    assert chosen.success[0, 0].tolist() == [True, True, False]
