"""Collection: every task, the same from the same seed, episodes of different lengths."""

from pathlib import Path

import numpy as np
import pytest

from idaq.behaviour.collect import collect
from idaq.envs import POINT_FAMILIES
from idaq.errors import IdaqError
from idaq.storage.dataset import Dataset, open_dataset
from tests import fakes


def test_defaults(datasets: dict[str, Dataset]) -> None:
    """45 trajectories of 20 steps for each of 100 tasks (Appendix C)."""
    for name, dataset in datasets.items():
        assert dataset.family == name
        assert dataset.num_tasks == 100
        assert dataset.num_episodes == 4500
        assert dataset.num_transitions == 90_000
        np.testing.assert_array_equal(dataset.arrays["episode_task"], np.repeat(np.arange(100), 45))
        assert dataset.metadata["generator"] == {"trajectories": 45, "seed": 0}
        np.testing.assert_allclose(
            dataset.metadata["task_params"], POINT_FAMILIES[name].task_params
        )
        assert {"idaq", "jax", "numpy", "python"} <= set(dataset.metadata["versions"])


def test_point_robot_ends_by_its_time_limit_only(datasets: dict[str, Dataset]) -> None:
    for dataset in datasets.values():
        assert not dataset.arrays["terminated"].any()
        truncated = dataset.arrays["truncated"].reshape(4500, 20)
        assert truncated[:, -1].all()
        assert not truncated[:, :-1].any()
        assert "success" not in dataset.arrays


def test_rows_are_the_familys_dynamics(datasets: dict[str, Dataset]) -> None:
    for dataset in datasets.values():
        arrays = dataset.arrays
        moved = arrays["observations"] + arrays["actions"]
        np.testing.assert_allclose(arrays["next_observations"], moved, atol=1e-6)
        assert np.abs(arrays["actions"]).max() <= 0.1 + 1e-7
        episodes = arrays["observations"].reshape(4500, 20, 2)
        np.testing.assert_array_equal(episodes[:, 0], 0.0)
        after = arrays["next_observations"].reshape(4500, 20, 2)
        np.testing.assert_array_equal(episodes[:, 1:], after[:, :-1])


def test_episodes_differ(datasets: dict[str, Dataset]) -> None:
    actions = datasets["point-robot"].arrays["actions"].reshape(4500, -1)
    assert len(np.unique(actions, axis=0)) == 4500


def test_collection_is_seeded(tmp_path: Path) -> None:
    family = POINT_FAMILIES["point-robot"]
    for name, seed in (("first", 5), ("again", 5), ("other", 6)):
        collect(family, tmp_path / name, trajectories=1, seed=seed)
    first, again, other = (open_dataset(tmp_path / n) for n in ("first", "again", "other"))
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint


def test_ragged_episodes_end_where_the_task_does(tmp_path: Path) -> None:
    """Tasks that end after one and two steps, and one that runs into the time limit."""
    family = fakes.Targets(((0.0, 0.0), (2.0, 1.0), (-3.0, 0.5)), lengths=(1, 2, 9))
    collect(family, tmp_path / "dataset", trajectories=2)
    dataset = open_dataset(tmp_path / "dataset", family.spec)
    assert np.diff(dataset.arrays["episode_offsets"]).tolist() == [1, 1, 2, 2, 3, 3]
    assert dataset.task_rows()[1].tolist() == [2, 4, 6]
    for index in range(6):
        episode = dataset.episode(index)
        ends_itself = index < 4
        assert episode["terminated"].tolist() == [False] * (len(episode["rewards"]) - 1) + [
            ends_itself
        ]
        assert episode["truncated"][-1] == (not ends_itself)
        np.testing.assert_allclose(
            episode["actions"], np.tile(family.targets[index // 2], (len(episode["rewards"]), 1))
        )
        assert episode["success"].all()  # the expert acts exactly


def test_refuses_no_trajectories_and_a_place_that_is_taken(tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="trajectories"):
        collect(POINT_FAMILIES["point-robot"], tmp_path / "new", trajectories=0)
    with pytest.raises(IdaqError, match="exists already"):
        collect(POINT_FAMILIES["point-robot"], tmp_path)
    assert list(tmp_path.iterdir()) == []
