"""Every way in which a dataset can be wrong is refused, with words that say where."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.errors import IdaqError
from idaq.storage.dataset import CHECKSUM, open_dataset, read_metadata, write_dataset
from idaq.types import Spec
from tests.storage.test_dataset import LENGTHS, METADATA, TASKS, arrays

SPEC = Spec(obs_dim=3, action_dim=2, action_low=(-1, -1), action_high=(1, 1), horizon=9)
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_dataset(tmp_path / "data", arrays(LENGTHS, TASKS), METADATA)
    return tmp_path / "data"


def with_metadata(place: Path, **changes: Any) -> None:
    values = json.loads((place / "metadata.json").read_text()) | changes
    values.pop(CHECKSUM, None)  # as in older datasets
    (place / "metadata.json").write_text(json.dumps(values))


# --- On the disk ----------------------------------------------------------------------------


def test_no_dataset_at_all(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", Path(__file__)):
        with pytest.raises(IdaqError, match=r"There is no dataset directory '.*'\. Make one"):
            open_dataset(path)
    with pytest.raises(IdaqError, match=r"is no dataset: it has no metadata\.json"):
        open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "holds no JSON object"),
        ("{}", "has schema version None; this idaq reads version 1"),
    ],
    ids=["cut off", "deep", "list", "empty"],
)
def test_metadata_that_is_none(place: Path, text: str, named: str) -> None:
    (place / "metadata.json").write_text(text)
    with pytest.raises(IdaqError, match=named):
        read_metadata(place)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"schema_version": 2}, "schema version 2; this idaq reads version 1"),
        ({"family": None}, "no usable 'family': None"),
        ({"num_tasks": "3"}, "no usable 'num_tasks': '3'"),
        ({"sha256": []}, r"no usable 'sha256': \[\]"),
        ({"sha256": {}}, "lacks the array 'observations'"),
    ],
)
def test_metadata_that_does_not_say_enough(place: Path, change: Any, named: str) -> None:
    with_metadata(place, **change)
    with pytest.raises(IdaqError, match=named):
        open_dataset(place)


def test_files_that_are_not_those_of_the_metadata(place: Path) -> None:
    hashes = read_metadata(place)["sha256"]
    with_metadata(place, sha256={**hashes, "extra": "0"})
    with pytest.raises(IdaqError, match=r"names an unknown array 'extra'\. Known: observations"):
        open_dataset(place)
    with_metadata(place, sha256=hashes)
    file = place / "rewards.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(IdaqError, match=r"rewards\.npy' is damaged: its checksum does not match"):
        open_dataset(place)
    file.unlink()
    with pytest.raises(IdaqError, match=r"rewards\.npy' is missing"):
        open_dataset(place)


def test_a_file_that_numpy_cannot_read(place: Path) -> None:
    file = place / "rewards.npy"
    file.write_bytes(b"no numbers")
    hashes = read_metadata(place)["sha256"]
    with_metadata(place, sha256=hashes | {"rewards": hashlib.sha256(b"no numbers").hexdigest()})
    with pytest.raises(IdaqError, match=r"rewards\.npy' cannot be read"):
        open_dataset(place)


def test_a_type_that_is_another(place: Path) -> None:
    file = place / "rewards.npy"
    np.save(file, np.load(file).astype(np.float64))
    hashes = read_metadata(place)["sha256"]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    with_metadata(place, sha256=hashes | {"rewards": digest})
    with pytest.raises(IdaqError, match=r"'rewards' .* has type float64\. It must be float32"):
        open_dataset(place)


def test_metadata_must_say_what_it_is_of(tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="The metadata has no usable 'family'"):
        write_dataset(tmp_path / "data", arrays(LENGTHS, TASKS), {"num_tasks": 3})
    assert list(tmp_path.iterdir()) == []


# --- In the arrays --------------------------------------------------------------------------


def put(name: str, index: Any, value: Any) -> Change:
    def change(logs: dict[str, Any]) -> None:
        logs[name] = np.array(logs[name])
        logs[name][index] = value

    return change


def cut(name: str, place: Any) -> Change:
    def change(logs: dict[str, Any]) -> None:
        logs[name] = logs[name][place]

    return change


WRONG: dict[str, tuple[Change, str]] = {
    "a matrix with one axis": (cut("observations", (..., 0)), "must have two axes"),
    "a vector with two axes": (cut("rewards", (..., None)), r"'rewards' .*\(15, 1\).* one axis"),
    "too few offsets": (cut("episode_offsets", slice(1, None)), "does not fit 5 episodes"),
    "first offset": (put("episode_offsets", 0, 1), "does not fit 5 episodes"),
    "an empty episode": (put("episode_offsets", 2, 4), "Episode 1 .* has no steps"),
    "backwards": (put("episode_offsets", 2, 3), "Episode 1 .* has no steps"),
    "last offset": (put("episode_offsets", -1, 14), "ends at row 14, but there are 15 rows"),
    "unsorted": (put("episode_task", 0, 2), "not sorted by task"),
    "below the first task": (put("episode_task", 0, -1), "a task outside 0 to 2"),
    "beyond the last task": (put("episode_task", 4, 3), "a task outside 0 to 2"),
    "an absent task": (put("episode_task", 2, 2), "Task 1 .* has no episodes"),
    "short actions": (cut("actions", slice(1, None)), r"'actions' .* \(14, 2\)\. .*\(15, 2\)"),
    "narrow": (cut("next_observations", (..., slice(2))), r"must be \(15, 3\) here"),
    "an end inside": (put("terminated", 1, True), "an end .* at row 1, inside an episode"),
    "a limit inside": (put("truncated", 13, True), "an end .* at row 13, inside an episode"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit(tmp_path: Path, name: str) -> None:
    change, named = WRONG[name]
    logs = arrays(LENGTHS, TASKS)
    change(logs)
    with pytest.raises(IdaqError, match=named):
        write_dataset(tmp_path / "data", logs, METADATA)
    assert list(tmp_path.iterdir()) == []


def test_no_episodes(tmp_path: Path) -> None:
    logs = arrays([1], [0])
    none = {name: value[:0] for name, value in logs.items()} | {"episode_offsets": np.zeros(1)}
    with pytest.raises(IdaqError, match="has no episodes"):
        write_dataset(tmp_path / "data", none, METADATA)


def test_names_that_are_missing_or_unknown(tmp_path: Path) -> None:
    logs = arrays(LENGTHS, TASKS)
    with pytest.raises(IdaqError, match="names an unknown array 'extra'"):
        write_dataset(tmp_path / "data", logs | {"extra": logs["rewards"]}, METADATA)
    for name in logs:
        rest = {other: value for other, value in logs.items() if other != name}
        with pytest.raises(IdaqError, match=f"lacks the array '{name}'"):
            write_dataset(tmp_path / "data", rest, METADATA)
    wrong = logs | {"success": np.zeros(14, bool)}
    with pytest.raises(IdaqError, match=r"'success' .* has shape \(14,\)"):
        write_dataset(tmp_path / "data", wrong, METADATA)


@pytest.mark.parametrize(("change", "named"), [({"obs_dim": 4}, "obs"), ({"action_dim": 3}, "act")])
def test_another_familys_shapes(place: Path, change: dict[str, int], named: str) -> None:
    open_dataset(place, SPEC)
    values = {**SPEC.__dict__, **change}
    with pytest.raises(IdaqError, match=rf"'{named}\w*' .* has shape .* It must be"):
        open_dataset(place, Spec(**values))
