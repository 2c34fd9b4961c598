"""The dataset on disk: round trip, ragged episodes, checksums, whole or absent."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.storage import dataset as store
from idaq.storage.atomic import write_json
from idaq.storage.dataset import open_dataset, write_dataset

METADATA = {"family": "made-up", "num_tasks": 3, "quality": "mixed"}


def arrays(lengths: list[int], tasks: list[int], seed: int = 0) -> dict[str, Any]:
    """Random rows of episodes of these lengths; every other episode ends its task."""
    rng = np.random.default_rng(seed)
    num = sum(lengths)
    terminated, truncated = np.zeros(num, bool), np.zeros(num, bool)
    for index, end in enumerate(np.cumsum(lengths)):
        (terminated if index % 2 else truncated)[end - 1] = True
    return {
        "observations": rng.normal(size=(num, 3)).astype(np.float32),
        "actions": rng.normal(size=(num, 2)).astype(np.float32),
        "rewards": rng.normal(size=num).astype(np.float32),
        "next_observations": rng.normal(size=(num, 3)).astype(np.float32),
        "terminated": terminated,
        "truncated": truncated,
        "episode_offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "episode_task": np.asarray(tasks),
    }


LENGTHS, TASKS = [4, 1, 3, 2, 5], [0, 0, 1, 2, 2]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    place = tmp_path / "dataset"
    write_dataset(place, arrays(LENGTHS, TASKS), METADATA)
    return place


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2)), min_size=3, max_size=8))
def test_round_trip_of_ragged_episodes(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, int]]
) -> None:
    episodes = sorted([*drawn, (1, 0), (2, 1), (3, 2)], key=lambda episode: episode[1])
    lengths, tasks = [list(column) for column in zip(*episodes, strict=True)]
    given_arrays = arrays(lengths, tasks)
    place = tmp_path_factory.mktemp("store") / "dataset"
    write_dataset(place, given_arrays, METADATA)
    dataset = open_dataset(place)

    assert dataset.arrays.keys() == given_arrays.keys()
    for name, value in given_arrays.items():
        np.testing.assert_array_equal(dataset.arrays[name], value, err_msg=name)
    assert dataset.num_episodes == len(lengths)
    assert dataset.num_transitions == sum(lengths)
    ends = np.cumsum(lengths)
    for index, (length, end) in enumerate(zip(lengths, ends, strict=True)):
        episode = dataset.episode(index)
        assert len(episode["rewards"]) == length
        np.testing.assert_array_equal(
            episode["observations"], given_arrays["observations"][end - length : end]
        )
        total = float(given_arrays["rewards"][end - length : end].astype(np.float64).sum())
        assert dataset.episode_returns()[index] == pytest.approx(total)
    starts, counts = dataset.task_rows()
    for task in range(3):
        own = [i for i, other in enumerate(tasks) if other == task]
        assert dataset.task_episodes(task).tolist() == own
        assert counts[task] == sum(lengths[i] for i in own)
        assert starts[task] == ends[own[0]] - lengths[own[0]]


def test_arrays_are_memory_mapped_and_read_only(written: Path) -> None:
    for value in open_dataset(written).arrays.values():
        assert isinstance(value, np.memmap)
        assert not value.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            value[0] = 0


def test_types_on_disk(written: Path) -> None:
    found = open_dataset(written).arrays
    kinds = {name: str(value.dtype) for name, value in found.items()}
    floats = ("observations", "actions", "rewards", "next_observations")
    assert kinds == {
        **dict.fromkeys(floats, "float32"),
        **dict.fromkeys(("terminated", "truncated"), "bool"),
        **dict.fromkeys(("episode_offsets", "episode_task"), "int64"),
    }


def test_termination_and_truncation_stay_apart(written: Path) -> None:
    dataset = open_dataset(written)
    for index in range(5):
        episode = dataset.episode(index)
        assert episode["terminated"][-1] == (index % 2 == 1)
        assert episode["truncated"][-1] == (index % 2 == 0)
        assert not episode["terminated"][:-1].any()
        assert not episode["truncated"][:-1].any()


def test_success_is_optional(tmp_path: Path) -> None:
    given_arrays = arrays(LENGTHS, TASKS) | {"success": np.arange(15) % 4 == 0}
    write_dataset(tmp_path / "dataset", given_arrays, METADATA)
    dataset = open_dataset(tmp_path / "dataset")
    np.testing.assert_array_equal(dataset.episode(2)["success"], given_arrays["success"][5:8])


def test_metadata(written: Path) -> None:
    dataset = open_dataset(written)
    assert (dataset.family, dataset.num_tasks) == ("made-up", 3)
    assert dataset.metadata["quality"] == "mixed"
    assert dataset.metadata["schema_version"] == store.SCHEMA_VERSION
    assert (dataset.metadata["num_transitions"], dataset.metadata["num_episodes"]) == (15, 5)
    assert set(dataset.metadata["sha256"]) == set(dataset.arrays)
    files = {file.name for file in written.iterdir()}
    assert files == {"metadata.json", *(f"{name}.npy" for name in dataset.arrays)}


def test_fingerprint_is_that_of_the_data_alone(written: Path, tmp_path: Path) -> None:
    first = open_dataset(written).fingerprint
    write_dataset(tmp_path / "same", arrays(LENGTHS, TASKS), METADATA | {"quality": "other"})
    assert open_dataset(tmp_path / "same").fingerprint == first
    changed = arrays(LENGTHS, TASKS)
    changed["rewards"][7] += 1e-6
    write_dataset(tmp_path / "changed", changed, METADATA)
    assert open_dataset(tmp_path / "changed").fingerprint != first


def test_written_twice_the_files_are_identical(written: Path, tmp_path: Path) -> None:
    write_dataset(tmp_path / "again", arrays(LENGTHS, TASKS), METADATA)
    for file in written.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


@pytest.mark.parametrize("after", [0, 1, 5, 6, 11, 12, 16, 20])
def test_an_error_while_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Whatever was written before: arrays, then the metadata."""
    calls = 0

    def fails(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            if calls == after:
                raise RuntimeError("interrupted")
            calls += 1
            return real(*arguments, **options)

        return call

    header = np.lib.format.write_array_header_1_0
    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", fails(header))
    monkeypatch.setattr(store, "_file_hash", fails(store._file_hash))
    monkeypatch.setattr(store, "write_json", fails(write_json))
    with pytest.raises(RuntimeError, match="interrupted"):
        write_dataset(tmp_path / "dataset", arrays(LENGTHS, TASKS), METADATA)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_place_is_left_alone(written: Path) -> None:
    before = {file.name: file.read_bytes() for file in written.iterdir()}
    with pytest.raises(Exception, match="exists already"):
        write_dataset(written, arrays([1, 1, 1], [0, 1, 2]), METADATA)
    assert {file.name: file.read_bytes() for file in written.iterdir()} == before


def test_metadata_is_plain_json(written: Path) -> None:
    text = (written / "metadata.json").read_text(encoding="utf-8")
    assert json.loads(text)["family"] == "made-up"
    assert "NaN" not in text
