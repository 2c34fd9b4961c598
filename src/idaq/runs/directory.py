"""The layout of a run directory, and who may write to it.

RUN/run.json              what the run is: family, preset, resolved config, data, versions
RUN/data/                 the dataset, where `idaq run` collected it
RUN/dataset.json          returns and successes of the data, per task: what scores are relative to
RUN/seeds.json            the groups of seeds that train together
RUN/train/GROUP.safetensors   a group's latest checkpoint, while it trains
RUN/seeds/seed-000/       split.json, agent.safetensors, metrics.jsonl, tensorboard/; for learning
                          curves also agent-00000100.safetensors, after so many updates
RUN/adapt/METHOD/         config.json and raw results per seed, seed-000.npz
RUN/summary.json          one row per method, computed from the raw results
RUN/timing.json           wall times of the stages
RUN/figures/
RUN/videos/               NAME-task-00.gif, where `idaq adapt --video` made one

Behaviour policies are trained in a directory that is held in the same way; it has a run.json, the
policies (see `idaq.behaviour.ladder`), state.safetensors and metrics.jsonl. A benchmark's runs may
have probe.npz and curve.npz. Whatever else is in there is its owner's.
"""

import fcntl
import json
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from idaq.errors import IdaqError
from idaq.storage.atomic import parents_of, remove_leftovers, temporaries_of, write_json

FORMAT_VERSION = 1
_PACKAGE = Path(__file__).resolve().parents[1]
LOCK_FILE = ".lock"
OWN_FILES = (  # that are written in a run directory, as patterns
    *("run.json", "dataset.json", "seeds.json", "summary.json", "timing.json"),
    *("probe.npz", "curve.npz"),
    *("ladder.json", "rung-*.safetensors", "state.safetensors", "metrics.jsonl"),
    "train/seeds-*.safetensors",
    *("seeds/seed-*/split.json", "seeds/seed-*/agent*.safetensors", "seeds/seed-*/metrics.jsonl"),
    *("adapt/*/config.json", "adapt/*/seed-*.npz"),
    *("figures/*.png", "videos/*.gif"),
)
OWN_DIRECTORIES = ("data",)  # that are written as a whole
_IDENTITY = {
    "family": str,
    "family_version": int,
    "algo": str,
    "algo_version": int,
    "preset": str,
    "split": str,
    "data": dict,
    "config": dict,
}
_REMEDY = "Restore it from a copy, or run again in another directory."


class BusyError(IdaqError):
    """Another process holds the directory."""


class RunDir:
    """Paths of one run."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def manifest_file(self) -> Path:
        return self.path / "run.json"

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def dataset_file(self) -> Path:
        return self.path / "dataset.json"

    @property
    def groups_file(self) -> Path:
        return self.path / "seeds.json"

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.json"

    @property
    def timing_file(self) -> Path:
        return self.path / "timing.json"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    def video_file(self, name: str, task: int) -> Path:
        return self.path / "videos" / f"{name}-task-{task:02d}.gif"

    @property
    def checkpoints(self) -> Path:
        return self.path / "train"

    def checkpoint_file(self, seeds: list[int]) -> Path:
        return self.checkpoints / f"seeds-{seeds[0]:03d}-{seeds[-1]:03d}.safetensors"

    def seed(self, seed: int) -> Path:
        return self.path / "seeds" / f"seed-{seed:03d}"

    def agent_file(self, seed: int, updates: int | None = None) -> Path:
        """A seed's agent, or the one that it was after so many updates."""
        name = "agent" if updates is None else f"agent-{updates:08d}"
        return self.seed(seed) / f"{name}.safetensors"

    def adapt(self, name: str) -> Path:
        return self.path / "adapt" / name

    def result_file(self, name: str, seed: int) -> Path:
        return self.adapt(name) / f"seed-{seed:03d}.npz"

    def adapt_names(self) -> list[str]:
        """The names under which adaptation results are stored."""
        return sorted(file.parent.name for file in self.path.glob("adapt/*/config.json"))

    def groups(self) -> list[list[int]]:
        """The groups of seeds so far."""
        if not self.groups_file.is_file():
            return []
        groups = read_json(self.groups_file)
        if not isinstance(groups, list) or not all(map(_is_group, groups)):
            raise IdaqError(f"'{self.groups_file}' does not list groups of seeds.", _REMEDY)
        return groups

    def seeds(self) -> list[int]:
        """All seeds so far."""
        return sorted(seed for group in self.groups() for seed in group)

    def manifest(self) -> dict[str, Any]:
        """run.json, or an error where this is no run directory."""
        if not self.manifest_file.is_file():
            raise IdaqError(
                f"'{self.path}' is no run directory: it has no run.json.",
                "Make one with `idaq run` or `idaq train`.",
            )
        manifest = _read_object(self.manifest_file)
        version = manifest.get("format_version")
        if version != FORMAT_VERSION:
            raise IdaqError(
                f"'{self.manifest_file}' has format version {version}; "
                f"this idaq reads version {FORMAT_VERSION}.",
                "Run again, or use the idaq that wrote it.",
            )
        identity, provenance = manifest.get("identity"), manifest.get("provenance")
        if not isinstance(identity, dict) or not isinstance(provenance, dict):
            raise IdaqError(f"'{self.manifest_file}' does not say what the run is.", _REMEDY)
        for key, kind in _IDENTITY.items():
            if not isinstance(identity.get(key), kind):
                raise IdaqError(f"'{self.manifest_file}' has no usable '{key}'.", _REMEDY)
        algorithm = identity["config"].get("algorithm")
        if isinstance(algorithm, dict):  # before there were several, it was not named there
            algorithm.setdefault("kind", identity["algo"])
        return manifest

    @contextmanager
    def claimed(
        self, identity: dict[str, Any], provenance: dict[str, Any], resume: bool
    ) -> Iterator[None]:
        """Hold the directory for this run: a new one, or the same one to go on with."""
        self._check_claim(identity, resume)  # before anything is written
        with self.locked():
            self._check_claim(identity, resume)  # another process may have been quicker
            if not self.manifest_file.is_file():
                manifest = {"identity": identity, "provenance": provenance}
                write_json(self.manifest_file, {"format_version": FORMAT_VERSION, **manifest})
            yield

    def _check_claim(self, identity: dict[str, Any], resume: bool) -> None:
        if not self.manifest_file.is_file():
            self._check_new()
            return
        if not resume:
            raise IdaqError(
                f"'{self.path}' holds a run already.",
                "Add --resume to go on with it, or choose another --out.",
            )
        different = [
            f"{key}: {before!r} there, {now!r} here"
            for key, before, now in _differences(self.manifest()["identity"], identity)
        ]
        if different:
            raise IdaqError(
                f"'{self.path}' is a run of another configuration ({'; '.join(different[:4])}).",
                "Give the same options, or choose another --out.",
            )

    def _check_new(self) -> None:
        """There may be what an interrupted start leaves, and nothing else, hidden or not."""
        if not self.path.exists():
            return
        problem = f"'{self.path}' exists already and is no run directory"
        remedy = "Choose another --out."
        if not self.path.is_dir():
            raise IdaqError(f"{problem}.", remedy)
        others = sorted(path.name for path in self.path.iterdir() if not _is_of_a_start(path))
        if others:
            raise IdaqError(f"{problem}: it has '{others[0]}'.", remedy)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory, so that two processes never write to one run."""
        lock_file = self.path / LOCK_FILE
        with parents_of(self.manifest_file), lock_file.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyError(
                    f"Another process is working in '{self.path}'.",
                    "Wait until it ends, or choose another --out.",
                ) from error
            try:
                remove_leftovers(self._temporaries(OWN_FILES), stat.S_ISREG)
                remove_leftovers(self._temporaries(OWN_DIRECTORIES), stat.S_ISDIR)
                yield
            finally:
                if not self.manifest_file.exists():  # no run was begun
                    lock_file.unlink(missing_ok=True)

    def _temporaries(self, targets: Iterable[str]) -> Iterator[Path]:
        """What writers of the run's own files may have left behind, in its own directories."""
        place = self.path.resolve()
        for target in targets:
            *folders, name = target.split("/")
            for path in place.glob("/".join([*folders, temporaries_of(name)])):
                if path.parent.resolve() == path.parent:  # no link leads there
                    yield path

    def record_time(self, stage: str, seconds: float) -> None:
        """Keep a stage's wall time."""
        times = _read_object(self.timing_file) if self.timing_file.is_file() else {}
        times[stage] = round(seconds, 3)
        write_json(self.timing_file, times)


def _is_of_a_start(path: Path) -> bool:
    """Whether it is of a process that has no run yet, alive or not: a lock, half a run.json."""
    try:
        found = path.lstat()
    except FileNotFoundError:  # it has just ended
        return True
    is_lock = path.name == LOCK_FILE and found.st_size == 0
    is_manifest = path.match(temporaries_of("run.json"))
    return stat.S_ISREG(found.st_mode) and (is_lock or is_manifest)


def _differences(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(set(before) | set(now)):
            inner = f"{name}.{key}" if name else str(key)
            yield from _differences(before.get(key), now.get(key), inner)
    elif before != now:
        yield name, before, now


def _is_group(group: Any) -> bool:
    return (
        isinstance(group, list)
        and len(group) > 0
        and all(isinstance(seed, int) and seed >= 0 for seed in group)
    )


def read_json(file: Path) -> Any:
    """Parse a JSON file of a run, or say which one is damaged."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise IdaqError(f"'{file}' is not valid JSON ({error}).", _REMEDY) from error


def _read_object(file: Path) -> dict[str, Any]:
    value = read_json(file)
    if not isinstance(value, dict):
        raise IdaqError(f"'{file}' holds no JSON object.", _REMEDY)
    return value


def git_state(source: Path = _PACKAGE) -> dict[str, Any] | None:
    """The commit of the source that runs, where it is a checkout or comes from `git archive`."""
    archived = (source / "archived_commit.txt").read_text(encoding="ascii").strip()
    if not archived.startswith("$"):
        return {"commit": archived, "modified": None}  # since then, which nobody knows
    try:
        commit = _git(source, "rev-parse", "HEAD")
        changed = _git(source, "status", "--porcelain", "--untracked-files=no", ".")
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "modified": bool(changed)}


def _git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
