"""What a dataset returned, against plain loops over its episodes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.storage.dataset import Dataset, open_dataset, write_dataset
from idaq.storage.describe import describe, successful_return

Logged = list[tuple[int, list[float], list[bool]]]  # task, rewards and successes of an episode


def dataset(place: Path, episodes: Logged, num_tasks: int, has_success: bool = True) -> Dataset:
    """A dataset of episodes whose observations nobody looks at."""
    lengths = [len(rewards) for _, rewards, _ in episodes]
    truncated = np.zeros(sum(lengths), bool)
    truncated[np.cumsum(lengths) - 1] = True
    arrays: dict[str, Any] = {
        "observations": np.zeros((sum(lengths), 1)),
        "actions": np.zeros((sum(lengths), 1)),
        "rewards": np.concatenate([rewards for _, rewards, _ in episodes]),
        "next_observations": np.zeros((sum(lengths), 1)),
        "terminated": np.zeros(sum(lengths), bool),
        "truncated": truncated,
        "episode_offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "episode_task": np.asarray([task for task, _, _ in episodes]),
    }
    if has_success:
        arrays["success"] = np.concatenate([success for _, _, success in episodes])
    write_dataset(place, arrays, {"family": "made-up", "num_tasks": num_tasks})
    return open_dataset(place)


YES, NO = True, False
EPISODES: Logged = [
    (0, [1.0, 2.0], [NO, YES]),  # 3, success
    (0, [5.0], [NO]),  # 5
    (0, [4.0, 0.0, 1.0], [YES, NO, NO]),  # 5, success at some step is success
    (1, [10.0], [NO]),  # 10: this task never succeeds
    (2, [2.0, 2.0], [YES, YES]),  # 4, success
]


def test_by_hand(tmp_path: Path) -> None:
    found = describe(dataset(tmp_path / "data", EPISODES, 3))
    assert found["mean_return"] == pytest.approx((3 + 5 + 5 + 10 + 4) / 5)
    assert found["episodes"] == [3, 1, 1]
    assert found["returns"] == pytest.approx([13 / 3, 10.0, 4.0])
    assert found["success"] == pytest.approx(3 / 5)
    assert found["successes"] == [2, 0, 1]
    assert successful_return(found, [0]) == pytest.approx(4.0)
    assert successful_return(found, [2]) == pytest.approx(4.0)
    assert successful_return(found, [0, 2]) == pytest.approx((3 + 5 + 4) / 3), "of episodes"


def test_tasks_without_success_add_nothing(tmp_path: Path) -> None:
    found = describe(dataset(tmp_path / "data", EPISODES, 3))
    assert successful_return(found, [1]) is None
    assert successful_return(found, []) is None
    assert successful_return(found, [0, 1]) == successful_return(found, [0])
    nothing = [(task, rewards, [NO] * len(rewards)) for task, rewards, _ in EPISODES]
    none = describe(dataset(tmp_path / "none", nothing, 3))
    assert none["successes"] == [0, 0, 0]
    assert none["success"] == 0.0
    assert successful_return(none, [0, 1, 2]) is None


def test_success_that_is_not_recorded(tmp_path: Path) -> None:
    found = describe(dataset(tmp_path / "data", EPISODES, 3, has_success=False))
    assert set(found) == {"quality", "mean_return", "episodes", "returns"}
    assert successful_return(found, [0, 1, 2]) is None


@given(st.integers(0, 2**32 - 1))
def test_against_loops(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_tasks = int(rng.integers(1, 5))
    episodes: Logged = []
    for task in range(num_tasks):
        for _ in range(rng.integers(1, 5)):
            length = int(rng.integers(1, 6))
            success = rng.random(length) < 0.3 * rng.integers(0, 3)
            episodes.append((task, rng.normal(100.0, 50.0, length).tolist(), success.tolist()))
    found = describe(dataset(tmp_path_factory.mktemp("describe") / "data", episodes, num_tasks))
    assert found["mean_return"] == pytest.approx(np.mean([sum(r) for _, r, _ in episodes]))
    tasks = rng.choice(num_tasks, rng.integers(1, num_tasks + 1), replace=False).tolist()
    for task in range(num_tasks):
        own = [sum(rewards) for each, rewards, _ in episodes if each == task]
        assert found["episodes"][task] == len(own)
        assert found["returns"][task] == pytest.approx(np.mean(own))
        assert found["successes"][task] == sum(any(s) for each, _, s in episodes if each == task)
    successful = [sum(r) for task, r, success in episodes if task in tasks and any(success)]
    expected = pytest.approx(np.mean(successful)) if successful else None
    assert successful_return(found, tasks) == expected


def test_who_logged_it_and_the_experts_own_scale(tmp_path: Path) -> None:
    """Where others logged the data, the scripted expert's successes are the scale."""
    logged = dataset(tmp_path / "data", EPISODES, 3)
    assert describe(logged)["quality"] is None
    own = {"successes": [2, 2, 2], "successful_returns": [30.0, 40.0, 50.0]}
    told = Dataset(
        logged.path, logged.metadata | {"quality": "medium", "expert": own}, logged.arrays
    )
    found = describe(told)
    assert found["quality"] == "medium"
    assert found | own == found
    assert found["success"] == pytest.approx(3 / 5), "that of the data"
    assert successful_return(found, [0, 2]) == pytest.approx(40.0)
