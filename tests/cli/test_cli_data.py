"""Datasets that are not what they should be: refused by name, and left alone."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.errors import IdaqError
from idaq.storage.dataset import open_dataset, write_dataset
from tests.program import (
    EPISODES,
    TRAINING,
    Program,
    arrays_of,
    change_arrays,
    change_json,
    forge_checksum,
)

Damage = Callable[[Path], object]


def _empty(data: Path) -> None:
    shutil.rmtree(data)
    data.mkdir()


def _file_instead(data: Path) -> None:
    shutil.rmtree(data)
    data.touch()


def _truncate(data: Path) -> None:
    file = data / "rewards.npy"
    file.write_bytes(file.read_bytes()[:-100])


def _truncate_and_forge(data: Path) -> None:
    _truncate(data)
    forge_checksum(data, "rewards")


def _flip_a_bit(data: Path) -> None:
    file = data / "actions.npy"
    contents = bytearray(file.read_bytes())
    contents[-1] ^= 1
    file.write_bytes(contents)


def _set_value(name: str, row: int, value: float) -> Damage:
    def damage(data: Path) -> None:
        array = arrays_of(data)[name]
        array[row] = value
        change_arrays(data, **{name: array})

    return damage


def _reshape(name: str, change: Callable[[Any], Any]) -> Damage:
    return lambda data: change_arrays(data, **{name: change(arrays_of(data)[name])})


def _empty_episode(data: Path) -> None:
    offsets = arrays_of(data)["episode_offsets"]
    offsets[5] = offsets[4]
    change_arrays(data, episode_offsets=offsets)


def _join_two_episodes(data: Path) -> None:
    arrays = arrays_of(data)
    offsets, task = arrays["episode_offsets"], arrays["episode_task"]
    assert task[0] == task[1]
    arrays["truncated"][offsets[1] - 1] = False
    change_arrays(
        data,
        truncated=arrays["truncated"],
        episode_offsets=np.delete(offsets, 1),
        episode_task=task[1:],
    )


def _without_task_7(data: Path) -> None:
    task = arrays_of(data)["episode_task"]
    task[task == 7] = 8
    change_arrays(data, episode_task=task)


def _no_rows_at_all(data: Path) -> None:
    empty = {name: value[:0] for name, value in arrays_of(data).items()}
    change_arrays(data, **empty | {"episode_offsets": np.zeros(1, np.int64)})


def _pickled_objects(data: Path) -> None:
    rewards = arrays_of(data)["rewards"].astype(object)
    np.save(data / "rewards.npy", rewards, allow_pickle=True)
    forge_checksum(data, "rewards")


def _zip_for_an_array(data: Path) -> None:
    with zipfile.ZipFile(data / "rewards.npy", "w") as archive:
        archive.writestr("rewards.npy", b"")
    forge_checksum(data, "rewards")


def _metadata(text: str) -> Damage:
    return lambda data: (data / "metadata.json").write_text(text)


def _metadata_value(*keys: str, to: Any) -> Damage:
    return lambda data: change_json(data / "metadata.json", *keys, to=to)


def _without_key(key: str) -> Damage:
    def damage(data: Path) -> None:
        file = data / "metadata.json"
        whole = json.loads(file.read_text())
        del whole[key]
        file.write_text(json.dumps(whole))

    return damage


def _without_checksum(data: Path) -> None:
    checksums = json.loads((data / "metadata.json").read_text())["sha256"]
    del checksums["rewards"]
    change_json(data / "metadata.json", "sha256", to=checksums)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "missing": (shutil.rmtree, "There is no dataset directory"),
    "empty": (_empty, "no metadata.json"),
    "a file": (_file_instead, "no dataset directory"),
    "other version": (_metadata_value("schema_version", to=2), "schema version 2"),
    "no version": (_without_key("schema_version"), "schema version None"),
    "truncated": (_truncate, "rewards.npy' is damaged"),
    "truncated, checksum right": (_truncate_and_forge, "rewards.npy' cannot be read"),
    "one bit flipped": (_flip_a_bit, "actions.npy' is damaged"),
    "array file missing": (lambda data: (data / "actions.npy").unlink(), "actions.npy' is missing"),
    "NaN": (_set_value("observations", 13, np.nan), "'observations'"),
    "NaN reward": (_set_value("rewards", 17, np.nan), "row 17"),
    "infinite": (_set_value("actions", 5, -np.inf), "row 5"),
    "infinite at the end": (_set_value("next_observations", -1, np.inf), "'next_observations'"),
    "an end inside an episode": (_set_value("terminated", 7, True), "row 7"),
    "longer than the horizon": (_join_two_episodes, "40 steps"),
    "empty episode": (_empty_episode, "Episode 4"),
    "no episodes": (_no_rows_at_all, ""),
    "task without episodes": (_without_task_7, "Task 7"),
    "more tasks than data": (_metadata_value("num_tasks", to=10**12), "Task 100"),
    "fewer tasks than data": (_metadata_value("num_tasks", to=99), "outside 0 to 98"),
    "negative tasks": (_metadata_value("num_tasks", to=-1), "no usable 'num_tasks'"),
    "negative task index": (_set_value("episode_task", 0, -1), "'episode_task'"),
    "unsorted tasks": (_set_value("episode_task", 0, 50), "not sorted"),
    "offsets from 1": (_set_value("episode_offsets", 0, 1), "'episode_offsets'"),
    "offsets too far": (_set_value("episode_offsets", -1, 2**60), "'episode_offsets'"),
    "too few offsets": (_reshape("episode_offsets", lambda x: x[:-1]), "'episode_offsets'"),
    "3-d observations": (_reshape("observations", lambda x: np.tile(x, (1, 2))), "(4000, 4)"),
    "3-d next": (_reshape("next_observations", lambda x: np.tile(x, (1, 2))), "(4000, 4)"),
    "flat observations": (_reshape("observations", lambda x: x[:, 0]), "two axes"),
    "1-d actions": (_reshape("actions", lambda x: x[:, :1]), "(4000, 1)"),
    "rewards with an axis": (_reshape("rewards", lambda x: x[:, None]), "one axis"),
    "fewer terminated": (_reshape("terminated", lambda x: x[:-1]), "'terminated'"),
    "scalar rewards": (_reshape("rewards", lambda x: x[0]), "'rewards'"),
    "matrix of tasks": (_reshape("episode_task", lambda x: x[:, None]), "'episode_task'"),
    "float64": (_reshape("rewards", lambda x: x.astype(np.float64)), "float64"),
    "big-endian": (_reshape("rewards", lambda x: x.astype(">f4")), "'rewards'"),
    "integer flags": (_reshape("terminated", lambda x: x.astype(np.int8)), "int8"),
    "float tasks": (_reshape("episode_task", lambda x: x.astype(np.float32)), "float32"),
    "pickled objects": (_pickled_objects, "rewards.npy' cannot be read"),
    "zip archive": (_zip_for_an_array, "rewards.npy' cannot be read"),
    "not JSON": (_metadata("{family: point-robot}"), "not valid JSON"),
    "empty metadata": (_metadata(""), "not valid JSON"),
    "deep JSON": (_metadata("[" * 100_000), "not valid JSON"),
    "JSON list": (_metadata("[1]"), "no JSON object"),
    "JSON null": (_metadata("null"), "no JSON object"),
    "no family": (_without_key("family"), "'family'"),
    "family no string": (_metadata_value("family", to=["point-robot"]), "'family'"),
    "unknown family": (_metadata_value("family", to="point-rob"), "'point-rob'"),
    "no number of tasks": (_without_key("num_tasks"), "'num_tasks'"),
    "number of tasks in words": (_metadata_value("num_tasks", to="100"), "'num_tasks'"),
    "no checksums": (_without_key("sha256"), "'sha256'"),
    "checksums no object": (_metadata_value("sha256", to="abc"), "'sha256'"),
    "checksum no string": (_metadata_value("sha256", "rewards", to=1), "rewards.npy' is damaged"),
    "checksum left out": (_without_checksum, "lacks the array 'rewards'"),
    "unknown array": (_metadata_value("sha256", "goals", to="0"), "'goals'"),
    "array elsewhere": (_metadata_value("sha256", "../x", to="0"), "'../x'"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_data_is_refused(refused: Program, data: Path, tmp_path: Path, name: str) -> None:
    damage, message = DAMAGES[name]
    damage(data)
    refused("train", "--data", data, "--out", tmp_path / "new", *TRAINING, names=(message,))


def test_metadata_that_is_no_text(refused: Program, data: Path, tmp_path: Path) -> None:
    (data / "metadata.json").write_bytes(b"\xff\xfe\x00")
    refused("train", "--data", data, "--out", tmp_path / "new", names=("not valid JSON",))


def test_array_headers_never_crash_the_reader(data: Path) -> None:
    """Any damage to an array's header that keeps its checksum right is an `IdaqError`."""
    file = data / "rewards.npy"
    original = file.read_bytes()
    rng = np.random.default_rng(0)
    refusals = 0
    for _ in range(300):
        contents = bytearray(original)
        for place in rng.integers(0, 128, size=rng.integers(1, 4)):
            contents[place] = rng.integers(256)
        file.write_bytes(contents)
        forge_checksum(data, "rewards")
        try:
            open_dataset(data)
        except IdaqError:
            refusals += 1
    assert refusals > 250


def test_data_of_another_family(
    idaq: Program, refused: Program, run: Path, data: Path, tmp_path: Path
) -> None:
    sparse = tmp_path / "sparse"
    collect = ("collect", "point-robot-sparse", "--trajectories", "2", "--out", sparse)
    assert idaq(*collect).code == 0
    # adaptation that is given data of another family
    refused(
        *("adapt", run, "--method", "expert-context", "--name", "other", "--data", sparse),
        names=(sparse, "point-robot-sparse", "idaq collect point-robot"),
    )
    # training that goes on with data of another family
    trained = tmp_path / "trained"
    train = ("train", "--out", trained, "--seeds", "1", *TRAINING)
    assert idaq(*train, "--data", data).code == 0
    refused(*train, "--data", sparse, "--resume", names=(trained, "family", "point-robot-sparse"))


def test_other_data_of_the_same_family(
    idaq: Program, refused: Program, run: Path, data: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    assert idaq("collect", "point-robot", "--trajectories", "3", "--out", other).code == 0
    adapt = ("adapt", run, "--method", "expert-context", "--name", "again", *EPISODES)
    refused(*adapt, "--data", other, names=(other, "not the data"))
    assert idaq(*adapt, "--data", data).code == 0, "the same data elsewhere is the same data"
    # the run's own data, replaced
    shutil.rmtree(run / "data")
    shutil.copytree(other, run / "data")
    refused("adapt", run, "--method", "expert-context", "--name", "x", names=(run / "data",))
    shutil.rmtree(run / "data")
    names = (run / "data", "--data")
    refused("adapt", run, "--method", "expert-context", "--name", "x", names=names)


def test_existing_directory_is_not_collected_into(refused: Program, data: Path) -> None:
    refused("collect", "point-robot", "--out", data, names=(data, "exists already"))


def test_writing_checks_first(tmp_path: Path, data: Path) -> None:
    """The Python twin refuses what opening would refuse, and writes nothing."""
    arrays, metadata = arrays_of(data), {"family": "point-robot", "num_tasks": 100}
    bad: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({**arrays, "goals": np.zeros(3)}, metadata, "goals"),
        ({n: v for n, v in arrays.items() if n != "rewards"}, metadata, "rewards"),
        ({**arrays, "rewards": np.full(4000, np.nan)}, metadata, "rewards"),
        (arrays, {"family": "point-robot"}, "num_tasks"),
        (arrays, {**metadata, "num_tasks": 101}, "Task 100"),
    ]
    for each, described, name in bad:
        with pytest.raises(IdaqError, match=name):
            write_dataset(tmp_path / "new" / "data", each, described)
        assert not (tmp_path / "new").exists()
    write_dataset(tmp_path / "new" / "data", arrays, metadata)
    assert open_dataset(tmp_path / "new" / "data").num_episodes == 200
