"""The dataset on disk: a directory of flat memory-mapped arrays and one `metadata.json`.

Transitions are rows, one after the other and sorted by task, so that a task is one slice.
`episode_offsets` ([episodes + 1]) cuts the rows into episodes, which may differ in length, and
`episode_task` ([episodes]) names each one's task. A dataset is written to a temporary sibling
and renamed: it is whole or absent. When it is opened, nothing is unpickled, its checksums are
verified, and everything that training relies on is checked before a row is used.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.storage import checked
from idaq.storage.atomic import atomic_directory, write_json
from idaq.types import AnyArray, Spec

SCHEMA_VERSION = 1
METADATA_FILE = "metadata.json"
CHECKSUM = "metadata_sha256"  # of everything else in that file
HASH_BLOCK_BYTES = 1 << 22
CHECK_BLOCK_ROWS = 1 << 18

ROW_ARRAYS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminated",
    "truncated",
)
OPTIONAL_ROW_ARRAYS = ("success",)
MATRICES = ("observations", "actions", "next_observations")  # rows and dimensions
EPISODE_ARRAYS = ("episode_offsets", "episode_task")
DTYPES: dict[str, type] = {
    "observations": np.float32,
    "actions": np.float32,
    "rewards": np.float32,
    "next_observations": np.float32,
    "terminated": np.bool_,
    "truncated": np.bool_,
    "success": np.bool_,
    "episode_offsets": np.int64,
    "episode_task": np.int64,
}

FIELDS: dict[str, checked.Check] = {  # of the metadata
    **{"family": checked.is_text, "num_tasks": checked.is_count, "sha256": checked.is_object},
    "quality": checked.or_none(checked.is_text),
    "expert": checked.or_none(checked.is_object),
}

Arrays = Mapping[str, AnyArray]


@dataclass(frozen=True)
class Dataset:
    """An open dataset. Arrays are memory-mapped and read-only."""

    path: Path
    metadata: Json
    arrays: dict[str, AnyArray]

    @property
    def family(self) -> str:
        return str(self.metadata["family"])

    @property
    def num_tasks(self) -> int:
        return int(self.metadata["num_tasks"])

    @property
    def num_transitions(self) -> int:
        return len(self.arrays["rewards"])

    @property
    def num_episodes(self) -> int:
        return len(self.arrays["episode_task"])

    @property
    def fingerprint(self) -> str:
        """One hash over the hashes of all arrays: equal data, equal fingerprint."""
        return fingerprint(self.metadata)

    def task_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First row and number of rows of every task, each [num_tasks]."""
        task, offsets = self.arrays["episode_task"], self.arrays["episode_offsets"]
        first = np.searchsorted(task, np.arange(self.num_tasks), side="left")
        last = np.searchsorted(task, np.arange(self.num_tasks), side="right")
        starts = offsets[first]
        return starts, offsets[last] - starts

    def task_episodes(self, task: int) -> NDArray[np.int64]:
        """The indices of a task's episodes."""
        return np.flatnonzero(self.arrays["episode_task"] == task)

    def episode(self, index: int) -> dict[str, AnyArray]:
        """The rows of one episode."""
        start, stop = self.arrays["episode_offsets"][index : index + 2]
        names = [n for n in (*ROW_ARRAYS, *OPTIONAL_ROW_ARRAYS) if n in self.arrays]
        return {name: self.arrays[name][start:stop] for name in names}

    def episode_returns(self) -> NDArray[np.float64]:
        """Undiscounted return of every episode."""
        rewards = np.asarray(self.arrays["rewards"], np.float64)
        return np.add.reduceat(rewards, self.arrays["episode_offsets"][:-1])

    def episode_success(self) -> NDArray[np.bool_] | None:
        """Whether an episode succeeded at any of its steps; None where that is not recorded."""
        if "success" not in self.arrays:
            return None
        success = np.asarray(self.arrays["success"])
        return np.logical_or.reduceat(success, self.arrays["episode_offsets"][:-1])


def write_dataset(path: Path, arrays: Arrays, metadata: Json) -> None:
    """Check the arrays, then write all of them or none. `path` must not exist."""
    _check_names(arrays, str(path))
    with dataset_writer(path, metadata) as writer:
        named: dict[str, AnyArray] = {
            name: np.asarray(value, DTYPES[name]) for name, value in arrays.items()
        }
        check_arrays(named, metadata, str(path))
        rows = {name: value for name, value in named.items() if name not in EPISODE_ARRAYS}
        writer.append(rows, np.diff(named["episode_offsets"]), named["episode_task"])


class DatasetWriter:
    """Appends episodes to the arrays of a dataset; the rows go to the disk as they come."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, BinaryIO] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}  # of one row
        self._lengths: list[int] = []
        self._tasks: list[int] = []

    def append(self, rows: Arrays, lengths: Iterable[int], tasks: Iterable[int]) -> None:
        """Append episodes: their rows, one after the other, and each one's length and task."""
        lengths = [int(length) for length in lengths]
        if self._files and set(rows) != set(self._files):
            raise IdaqError(
                f"Episodes with {', '.join(rows)} follow others with {', '.join(self._files)}.",
                "Give all episodes the same arrays.",
            )
        for name, value in rows.items():
            shape = (sum(lengths), *self._shapes.get(name, value.shape[1:]))
            if value.shape != shape:
                raise IdaqError(f"'{name}' has shape {value.shape}.", f"It must be {shape} here.")
        for name, value in rows.items():
            if name not in self._files:
                self._files[name] = (self._directory / f"{name}.npy").open("wb")
                self._shapes[name] = value.shape[1:]
                self._write_header(name, 0)
            self._files[name].write(np.ascontiguousarray(value, DTYPES[name]).tobytes())
        self._lengths += lengths
        self._tasks += [int(task) for task in tasks]

    def finish(self) -> dict[str, AnyArray]:
        """Close the files; returns all arrays, memory-mapped."""
        num_rows = sum(self._lengths)
        for name, file in self._files.items():
            file.seek(0)
            self._write_header(name, num_rows)  # numpy leaves room for the number of rows
            file.close()
        offsets = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])
        for name, value in (("episode_offsets", offsets), ("episode_task", self._tasks)):
            array: AnyArray = np.asarray(value, DTYPES[name])
            np.save(self._directory / f"{name}.npy", array, allow_pickle=False)
        names = (*self._files, *EPISODE_ARRAYS)
        return {name: np.load(self._directory / f"{name}.npy", mmap_mode="r") for name in names}

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _write_header(self, name: str, num_rows: int) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(np.dtype(DTYPES[name])),
            "fortran_order": False,
            "shape": (num_rows, *self._shapes[name]),
        }
        np.lib.format.write_array_header_1_0(self._files[name], header)


@contextmanager
def dataset_writer(path: Path, metadata: Json) -> Iterator[DatasetWriter]:
    """Append episodes, sorted by task; they are checked at the end: `path` is whole or absent."""
    if path.exists():
        raise IdaqError(f"'{path}' exists already.", "Choose another directory or remove it.")
    full: Json = {**metadata, "schema_version": SCHEMA_VERSION, "sha256": {}}
    _check_metadata(full, "The metadata", "Name the family and its number of tasks.")
    with atomic_directory(path) as directory:
        writer = DatasetWriter(directory)
        try:
            yield writer
            arrays = writer.finish()
        finally:
            writer.close()
        check_arrays(arrays, full, str(path))
        full["num_transitions"] = len(arrays["rewards"])
        full["num_episodes"] = len(arrays["episode_task"])
        for name in arrays:
            full["sha256"][name] = _file_hash(directory / f"{name}.npy")
        write_json(directory / METADATA_FILE, full | {CHECKSUM: _checksum(full)})


def open_dataset(path: Path, spec: Spec | None = None) -> Dataset:
    """Open and verify a dataset; with a `spec`, its shapes and lengths must be the family's."""
    metadata = read_metadata(path)
    _check_names(metadata["sha256"], str(path))
    arrays: dict[str, AnyArray] = {}
    for name, checksum in metadata["sha256"].items():
        file = path / f"{name}.npy"
        if not file.is_file():
            raise IdaqError(f"'{file}' is missing.", _REMEDY)
        if _file_hash(file) != checksum:
            raise IdaqError(f"'{file}' is damaged: its checksum does not match.", _REMEDY)
        try:
            arrays[name] = np.lib.format.open_memmap(file, mode="r")
        except Exception as error:  # a damaged header can make numpy raise anything
            raise IdaqError(f"'{file}' cannot be read ({error}).", _REMEDY) from error
    check_arrays(arrays, metadata, str(path), spec)
    return Dataset(path, metadata, arrays)


_REMEDY = "Copy the dataset again, or collect it anew with `idaq collect`."


def fingerprint(metadata: Json) -> str:
    """The fingerprint of the dataset that has this metadata."""
    hashes = metadata["sha256"]
    text = "\n".join(f"{name} {hashes[name]}" for name in sorted(hashes))
    return hashlib.sha256(text.encode()).hexdigest()


def read_metadata(path: Path) -> Json:
    """The metadata of a dataset, checked; the arrays are not touched."""
    if not path.is_dir():
        raise IdaqError(
            f"There is no dataset directory '{path}'.", "Make one with `idaq collect FAMILY`."
        )
    file = path / METADATA_FILE
    if not file.is_file():
        raise IdaqError(f"'{path}' is no dataset: it has no {METADATA_FILE}.", _REMEDY)
    metadata = checked.read_object(file, _REMEDY)
    version = metadata.get("schema_version")
    if version != SCHEMA_VERSION:
        raise IdaqError(
            f"'{path}' has schema version {version}; this idaq reads version {SCHEMA_VERSION}.",
            "Collect it anew, or use the idaq that wrote it.",
        )
    _check_metadata(metadata, f"'{file}'", _REMEDY)
    if metadata.get(CHECKSUM) not in (None, _checksum(metadata)):  # older ones have none
        raise IdaqError(f"'{file}' was changed: its checksum does not match.", _REMEDY)
    return metadata


def _checksum(metadata: Json) -> str:
    """The checksum of everything else in the metadata, as a file has it."""
    rest = json.loads(json.dumps({k: v for k, v in metadata.items() if k != CHECKSUM}))
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _check_metadata(metadata: Json, where: str, remedy: str) -> None:
    checked.with_fields(metadata, where, remedy, **FIELDS)
    expert = metadata.get("expert") or {}
    checked.with_fields(expert, f"'expert' of {where}", remedy, **checked.SUCCESSES)


def _check_names(names: Iterable[str], where: str) -> None:
    names = set(names)
    for name in (*ROW_ARRAYS, *EPISODE_ARRAYS):
        if name not in names:
            raise IdaqError(f"'{where}' lacks the array '{name}'.", _REMEDY)
    for name in sorted(names - set(DTYPES)):
        raise IdaqError(
            f"'{where}' names an unknown array '{name}'.", f"Known: {', '.join(DTYPES)}."
        )


def _file_hash(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(HASH_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def check_arrays(arrays: Arrays, metadata: Json, where: str, spec: Spec | None = None) -> None:
    """Check everything that training relies on."""
    for name, value in arrays.items():
        if value.dtype != DTYPES[name]:
            raise IdaqError(
                f"'{name}' in '{where}' has type {value.dtype}.",
                f"It must be {np.dtype(DTYPES[name])}.",
            )
        num_axes = 2 if name in MATRICES else 1
        if value.ndim != num_axes:
            axes = "two axes: rows and dimensions" if num_axes == 2 else "one axis"
            raise IdaqError(
                f"'{name}' in '{where}' has shape {value.shape}.", f"It must have {axes}."
            )
    _check_episodes(arrays, int(metadata["num_tasks"]), where)
    _check_shapes(arrays, where, spec)
    _check_ends(arrays, where, spec)
    _check_values(arrays, where)


def _check_episodes(arrays: Arrays, num_tasks: int, where: str) -> None:
    offsets, task = arrays["episode_offsets"], arrays["episode_task"]
    if len(task) == 0:
        raise IdaqError(f"'{where}' has no episodes.", "Collect at least one per task.")
    if len(offsets) != len(task) + 1 or offsets[0] != 0:
        raise IdaqError(
            f"'episode_offsets' in '{where}' does not fit {len(task)} episodes.",
            "It holds the first row of every episode and then the number of rows.",
        )
    is_empty = offsets[1:] <= offsets[:-1]
    if np.any(is_empty):
        bad = int(np.flatnonzero(is_empty)[0])
        raise IdaqError(f"Episode {bad} in '{where}' has no steps.", "Remove empty episodes.")
    if offsets[-1] != len(arrays["rewards"]):
        raise IdaqError(
            f"'episode_offsets' in '{where}' ends at row {offsets[-1]}, "
            f"but there are {len(arrays['rewards'])} rows.",
            "The last offset is the number of rows.",
        )
    if np.any(task[1:] < task[:-1]):
        raise IdaqError(f"Episodes in '{where}' are not sorted by task.", "Sort them by task.")
    if task[0] < 0 or task[-1] >= num_tasks:
        raise IdaqError(
            f"'episode_task' in '{where}' names a task outside 0 to {num_tasks - 1}.",
            "Correct the index, or num_tasks in the metadata.",
        )
    present = np.unique(task)
    if len(present) < num_tasks:
        absent = np.setdiff1d(np.arange(len(present) + 1), present)[0]
        raise IdaqError(
            f"Task {absent} in '{where}' has no episodes.", "Every task needs at least one."
        )


def _check_shapes(arrays: Arrays, where: str, spec: Spec | None) -> None:
    rows = len(arrays["rewards"])
    names = (*ROW_ARRAYS, *OPTIONAL_ROW_ARRAYS)
    expected: dict[str, tuple[int, ...]] = dict.fromkeys(names, (rows,))
    obs_dim, action_dim = arrays["observations"].shape[1], arrays["actions"].shape[1]
    if spec is not None:
        obs_dim, action_dim = spec.obs_dim, spec.action_dim
    expected["observations"] = expected["next_observations"] = (rows, obs_dim)
    expected["actions"] = (rows, action_dim)
    for name, shape in expected.items():
        if name in arrays and arrays[name].shape != shape:
            raise IdaqError(
                f"'{name}' in '{where}' has shape {arrays[name].shape}.",
                f"It must be {shape} here.",
            )


def _check_ends(arrays: Arrays, where: str, spec: Spec | None) -> None:
    """An episode ends once, at its last row, and within the horizon."""
    offsets = arrays["episode_offsets"]
    ended = np.asarray(arrays["terminated"]) | np.asarray(arrays["truncated"])
    ended[offsets[1:] - 1] = False
    if ended.any():
        row = int(np.flatnonzero(ended)[0])
        raise IdaqError(
            f"'{where}' has an end (terminated or truncated) at row {row}, inside an episode.",
            "Cut the episode there, or clear the flag.",
        )
    lengths = np.diff(offsets)
    if spec is not None and lengths.max() > spec.horizon:
        raise IdaqError(
            f"Episode {int(lengths.argmax())} in '{where}' has {int(lengths.max())} steps.",
            f"The family's horizon is {spec.horizon}.",
        )


def _check_values(arrays: Arrays, where: str) -> None:
    for name in ("observations", "actions", "rewards", "next_observations"):
        for start in range(0, len(arrays[name]), CHECK_BLOCK_ROWS):
            block = arrays[name][start : start + CHECK_BLOCK_ROWS]
            finite = np.isfinite(block)
            if not finite.all():
                row = start + int(np.argwhere(~finite)[0][0])
                raise IdaqError(
                    f"'{name}' in '{where}' is NaN or infinite at row {row}.",
                    "Remove that episode or repair the value.",
                )
