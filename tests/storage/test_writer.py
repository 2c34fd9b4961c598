"""Datasets that are written as they come: the same files as those written at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.behaviour.collect import collect
from idaq.errors import IdaqError
from idaq.storage.dataset import DatasetWriter, dataset_writer, open_dataset, write_dataset
from tests.host_fakes import HORIZON, InlinePool, Walk
from tests.program import arrays_of, results, tree

METADATA: dict[str, Any] = {"family": "walk", "num_tasks": 3, "note": {"of": "mine"}}
LENGTHS = (4, 1, 7, 2, 2, 9)
TASKS = (0, 0, 1, 2, 2, 2)


def rows(num: int, seed: int = 0) -> dict[str, Any]:
    """Random rows, none of which ends an episode."""
    rng = np.random.default_rng(seed)
    return {
        "observations": rng.normal(size=(num, 5)).astype(np.float32),
        "actions": rng.normal(size=(num, 2)).astype(np.float32),
        "rewards": rng.normal(size=num).astype(np.float32),
        "next_observations": rng.normal(size=(num, 5)).astype(np.float32),
        "terminated": np.zeros(num, bool),
        "truncated": np.zeros(num, bool),
        "success": rng.random(num) < 0.5,
    }


def whole() -> dict[str, Any]:
    """All arrays of a dataset; episodes differ in length, and some have terminated."""
    arrays, ends = rows(sum(LENGTHS)), np.cumsum(LENGTHS)
    arrays["terminated"][ends[::2] - 1] = True
    arrays["truncated"][ends[1::2] - 1] = True
    return arrays | {
        "episode_offsets": np.concatenate([[0], ends]),
        "episode_task": np.asarray(TASKS),
    }


def append(writer: DatasetWriter, arrays: dict[str, Any], first: int, last: int) -> None:
    """Episodes `first` to `last` of a whole dataset."""
    start, stop = arrays["episode_offsets"][first], arrays["episode_offsets"][last]
    part = {name: value[start:stop] for name, value in arrays.items() if "episode" not in name}
    writer.append(part, LENGTHS[first:last], TASKS[first:last])


@pytest.mark.parametrize("size", [1, 2, 4, 6])
def test_in_pieces_or_at_once(tmp_path: Path, size: int) -> None:
    """Names, headers, rows, checksums: not a byte is different."""
    write_dataset(tmp_path / "once", whole(), METADATA)
    with dataset_writer(tmp_path / "pieces", METADATA) as writer:
        for first in range(0, len(LENGTHS), size):
            append(writer, whole(), first, min(first + size, len(LENGTHS)))
    assert results(tmp_path / "pieces") == results(tmp_path / "once")
    found = arrays_of(tmp_path / "pieces")
    assert set(found) == set(whole())
    for name, value in whole().items():
        np.testing.assert_array_equal(found[name], value)
    metadata = open_dataset(tmp_path / "pieces").metadata
    assert METADATA.items() <= metadata.items()
    assert metadata["num_transitions"] == sum(LENGTHS)
    assert metadata["num_episodes"] == len(LENGTHS)


def test_arrays_are_those_that_numpy_writes(tmp_path: Path) -> None:
    """Readable without this package, however many rows the header was made for."""
    with dataset_writer(tmp_path / "data", METADATA) as writer:
        append(writer, whole(), 0, 1)
        append(writer, whole(), 1, len(LENGTHS))
    for name, value in whole().items():
        read = np.load(tmp_path / "data" / f"{name}.npy", allow_pickle=False)
        np.testing.assert_array_equal(read, value)
        expected = np.asarray(value, read.dtype)
        np.save(tmp_path / "numpy.npy", expected)
        written = (tmp_path / "data" / f"{name}.npy").read_bytes()
        assert written == (tmp_path / "numpy.npy").read_bytes(), name


def test_other_number_types_and_layouts_are_converted(tmp_path: Path) -> None:
    write_dataset(tmp_path / "once", whole(), METADATA)
    arrays = whole()
    for name in ("observations", "actions", "rewards", "next_observations"):
        arrays[name] = np.asfortranarray(arrays[name].astype(np.float64))
    with dataset_writer(tmp_path / "converted", METADATA) as writer:
        append(writer, arrays, 0, 3)
        append(writer, arrays, 3, 6)
    assert results(tmp_path / "converted") == results(tmp_path / "once")


def interrupted(place: Path) -> None:
    with dataset_writer(place, METADATA) as writer:
        append(writer, whole(), 0, 4)
        assert list(place.parent.rglob("rewards.npy")), "rows go to the disk at once"
        raise KeyboardInterrupt


def test_an_exception_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "deep" / "data")
    assert tree(tmp_path) == {}


def written(place: Path, arrays: dict[str, Any], *parts: tuple[int, int]) -> None:
    with dataset_writer(place, METADATA) as writer:
        for first, last in parts:
            append(writer, arrays, first, last)


def test_what_is_wrong_is_found_at_the_end_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "data"
    with pytest.raises(IdaqError, match="no episodes"):
        written(place, whole())
    with pytest.raises(IdaqError, match="not sorted by task"):
        written(place, whole(), (3, 6), (0, 3))
    with pytest.raises(IdaqError, match=r"Task 2 .* has no episodes"):
        written(place, whole(), (0, 3))
    arrays = whole()
    arrays["rewards"][6] = np.inf
    with pytest.raises(IdaqError, match=r"'rewards' .* NaN or infinite at row 6"):
        written(place, arrays, (0, 2), (2, 6))
    assert tree(tmp_path) == {}


def test_a_place_that_is_taken_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(IdaqError, match="exists already"), dataset_writer(tmp_path / "data", {}):
        pytest.fail("nothing may be written")
    assert tree(tmp_path) == before


FAMILY = Walk(num_tasks=5)


def test_collection_is_the_experts_episodes(tmp_path: Path) -> None:
    """Made by hand: a seed of (seed, task, number) per episode, task by task."""
    collect(FAMILY, tmp_path / "data", trajectories=2, seed=9, pool=InlinePool(), quiet=True)
    dataset = open_dataset(tmp_path / "data", FAMILY.spec)
    assert dataset.arrays["episode_task"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    env = FAMILY.make_env()
    for index, task in enumerate(dataset.arrays["episode_task"]):
        episode = dataset.episode(index)
        rng = np.random.default_rng((9, int(task), index % 2))
        obs, info = env.reset(seed=int(rng.integers(2**31)), options={"task": int(task)})
        expert = FAMILY.make_expert(env)
        expert.reset()
        for step in range(FAMILY.length(int(task))):
            np.testing.assert_array_equal(episode["observations"][step], obs)
            action = expert.act(obs, info, rng)
            np.testing.assert_array_equal(episode["actions"][step], action)
            obs, reward, terminated, truncated, info = env.step(action)
            np.testing.assert_array_equal(episode["next_observations"][step], obs)
            assert episode["rewards"][step] == np.float32(reward)
            assert episode["terminated"][step] == terminated
            assert episode["truncated"][step] == truncated
            assert episode["success"][step] == info["success"]
        assert len(episode["rewards"]) == FAMILY.length(int(task)) <= HORIZON
    success = dataset.episode_success()
    assert success is not None
    assert 0 < success.sum() < len(success)


def test_more_trajectories_begin_with_the_same(tmp_path: Path) -> None:
    for num in (1, 3):
        place = tmp_path / f"{num}"
        collect(FAMILY, place, trajectories=num, pool=InlinePool(), quiet=True)
    one, three = (open_dataset(tmp_path / name) for name in ("1", "3"))
    for task in range(FAMILY.num_tasks):
        first, second = three.episode(3 * task), three.episode(3 * task + 1)
        for name, value in one.episode(task).items():
            np.testing.assert_array_equal(value, first[name])
        assert not np.array_equal(first["actions"], second["actions"])


def _more_rows(first: dict[str, Any], second: dict[str, Any]) -> None:
    for name in second:
        second[name] = np.concatenate([second[name], second[name][-1:]])


def _fewer_rows(first: dict[str, Any], second: dict[str, Any]) -> None:
    for name in second:
        second[name] = second[name][:-1]


def _wider(first: dict[str, Any], second: dict[str, Any]) -> None:
    second["observations"] = np.ones((4, 6), np.float32)


def _no_success(first: dict[str, Any], second: dict[str, Any]) -> None:
    del second["success"]


@pytest.mark.parametrize("change", [_more_rows, _fewer_rows, _wider, _no_success])
def test_rows_that_do_not_fit(tmp_path: Path, change: Any) -> None:
    first, second = rows(4), rows(4, seed=1)
    change(first, second)

    def write() -> None:
        with dataset_writer(tmp_path / "data", {**METADATA, "num_tasks": 1}) as writer:
            writer.append(first, [4], [0])
            writer.append(second, [4], [0])

    with pytest.raises(IdaqError):
        write()
    assert tree(tmp_path) == {}
