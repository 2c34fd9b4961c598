"""What is seen at the first step is hidden only if it does not predict what experts do."""

from pathlib import Path

import numpy as np
import pytest

from idaq.engine.starts import RIDGE, _explained, start_std, unrelated_starts
from idaq.storage.dataset import Dataset, open_dataset, write_dataset
from tests.storage.test_dataset import METADATA

NUM_TASKS, EPISODES, STEPS = 24, 3, 30
HAND, OBJECT = slice(0, 2), slice(2, 4)
TRAIN = np.arange(20)


def made_up(place: Path, story: str, seed: int = 0) -> Dataset:
    """A hand that walks from the origin to a goal, with an object in sight."""
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(NUM_TASKS):
        thing, goal = rng.uniform(-1, 1, (2, 2))
        if story == "the object is the goal":
            goal = thing.copy()
        for _ in range(EPISODES):
            share = np.linspace(0, 1, STEPS)[:, None]
            hand = share * goal
            if story == "first the object, then the goal":
                hand = np.where(share < 0.5, 2 * share * thing, thing + (2 * share - 1) * goal)
            seen = np.broadcast_to(thing, (STEPS, 2))
            if story == "the object moves":
                seen = thing + share * goal
            if story == "starts differ within a task":
                seen = np.broadcast_to(rng.uniform(-1, 1, 2), (STEPS, 2))
            episodes.append(np.c_[hand + 0.01 * rng.normal(size=hand.shape) * share, seen])
    obs = np.concatenate(episodes).astype(np.float32)
    ends = np.zeros(len(obs), bool)
    ends[STEPS - 1 :: STEPS] = True
    arrays = {
        "observations": obs,
        "actions": np.zeros((len(obs), 1), np.float32),
        "rewards": np.zeros(len(obs), np.float32),
        "next_observations": obs,
        "terminated": np.zeros(len(obs), bool),
        "truncated": ends,
        "episode_offsets": np.arange(0, len(obs) + 1, STEPS),
        "episode_task": np.repeat(np.arange(NUM_TASKS), EPISODES),
    }
    write_dataset(place, arrays, METADATA | {"num_tasks": NUM_TASKS})
    return open_dataset(place)


@pytest.mark.parametrize("seed", range(5))
def test_an_object_that_does_not_matter_is_found(tmp_path: Path, seed: int) -> None:
    hidden = unrelated_starts(made_up(tmp_path / "data", "reach", seed), TRAIN)
    assert hidden.tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    "story",
    [
        "the object is the goal",
        "first the object, then the goal",
        "the object moves",
        "starts differ within a task",
    ],
)
def test_what_may_matter_stays_in_sight(tmp_path: Path, story: str) -> None:
    assert not unrelated_starts(made_up(tmp_path / "data", story), TRAIN).any()


def test_two_tasks_say_nothing(tmp_path: Path) -> None:
    assert not unrelated_starts(made_up(tmp_path / "data", "reach"), np.arange(2)).any()


def test_test_tasks_are_not_looked_at(tmp_path: Path) -> None:
    dataset = made_up(tmp_path / "data", "the object is the goal")
    arrays = {name: np.array(values) for name, values in dataset.arrays.items()}
    held_out = np.repeat(arrays["episode_task"], STEPS) >= len(TRAIN)
    arrays["observations"][held_out] = np.random.default_rng(1).normal(size=(held_out.sum(), 4))
    write_dataset(tmp_path / "other", arrays, METADATA | {"num_tasks": NUM_TASKS})
    other = open_dataset(tmp_path / "other")
    np.testing.assert_array_equal(unrelated_starts(dataset, TRAIN), unrelated_starts(other, TRAIN))
    np.testing.assert_array_equal(start_std(dataset, TRAIN), start_std(other, TRAIN))
    first = arrays["observations"][::STEPS][: len(TRAIN) * EPISODES].astype(np.float64)
    np.testing.assert_allclose(start_std(other, TRAIN), first.std(axis=0))


def test_the_share_explained_is_of_tasks_left_out() -> None:
    """The closed form against one regression for each task that is left out."""
    rng = np.random.default_rng(0)
    features, values = rng.normal(size=(12, 2)), rng.normal(size=(12, 3))
    values[:, 0] += features[:, 1]
    error, baseline = 0.0, 0.0
    for out in range(12):
        rest = np.arange(12) != out
        design = np.c_[np.ones(11), features[rest]]
        penalty = np.diag([0.0, RIDGE, RIDGE])
        weights = np.linalg.solve(design.T @ design + penalty, design.T @ values[rest])
        error += ((values[out] - np.r_[1.0, features[out]] @ weights) ** 2).sum()
        baseline += ((values[out] - values[rest].mean(axis=0)) ** 2).sum()
    assert _explained(features, values) == pytest.approx(1.0 - error / baseline)
