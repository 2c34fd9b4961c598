"""A run: opened once, and passed to whatever works on it or reads it.

It has a directory, a manifest, a family, a configuration and an algorithm. The family is the very
object that the user gave; if none was given it is looked up by name, and only when it is needed, so
that a run can be read and reported without its family.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from idaq.algos.base import Algorithm
from idaq.algos.entries import (
    FIRST_VERSION,
    comes_with_idaq,
    components_of,
    make_algorithm,
    version_of,
)
from idaq.config import Json, from_dict
from idaq.engine.provenance import find_provenance
from idaq.envs import get_family
from idaq.envs.family import TaskFamily, split_tasks, validation_split
from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.runs.identity import identities
from idaq.runs.manifest import Identity, Manifest, parse_manifest, read_checked, read_manifest
from idaq.runs.recipe import Recipe
from idaq.settings import RunConfig
from idaq.storage.atomic import write_json
from idaq.storage.checked import REMEDY, is_count, list_of, read_json, read_object
from idaq.storage.claim import claimed
from idaq.storage.dataset import METADATA_FILE, Dataset, open_dataset
from idaq.storage.layout import RUN
from idaq.types import TaskSplit


class Run:
    """One run. `Run.open` reads an existing one; `Run.claim` begins one or continues it."""

    def __init__(
        self, directory: RunDir, manifest: Manifest, family: TaskFamily | None = None
    ) -> None:
        self.directory, self.manifest = directory, manifest
        self._is_held = False
        self._datasets: dict[Path, Dataset] = {}
        if family is not None:
            self.family = family
            self._check_family()

    @classmethod
    def open(cls, place: "RunPlace", family: TaskFamily | None = None) -> "Run":
        """An existing run; an open one is returned as it is, unless another `family` is given."""
        if isinstance(place, Run):
            is_same = family is None or family is place.__dict__.get("family")
            return place if is_same else cls(place.directory, place.manifest, family)
        directory = RunDir(place)
        return cls(directory, read_manifest(directory.path), family)

    @classmethod
    @contextmanager
    def claim(
        cls,
        place: RunDir | Path | str,
        recipe: Recipe,
        *,
        resume: bool,
        dataset: Dataset | None = None,
    ) -> Iterator["Run"]:
        """Hold a directory for a new run, or to continue the same one.

        `dataset` is the data that the run is made from, unless it collects its own.
        """
        recipe.check()
        directory = RunDir(place)
        trained_on = None if dataset is None else str(dataset.path.resolve())
        with claimed(
            directory.path,
            RUN,
            recipe.identity.to_json(),
            {**find_provenance(), "dataset": trained_on},
            resume,
            read_checked,
        ) as manifest:
            run = cls(directory, parse_manifest(manifest, directory.path))
            run.family, run.config, run.algorithm = recipe.family, recipe.config, recipe.algorithm
            if dataset is not None:
                run._datasets[dataset.path.resolve()] = dataset
            run._is_held = True
            try:
                yield run
            finally:
                run._is_held = False

    @contextmanager
    def held(self) -> Iterator["Run"]:
        """Hold the directory to write to it; does nothing if this run holds it already."""
        if self._is_held:
            yield self
            return
        with self.directory.locked():
            self._is_held = True
            try:
                yield self
            finally:
                self._is_held = False

    # --- What it is -------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self.directory.path

    @property
    def identity(self) -> Identity:
        return self.manifest.identity

    @cached_property
    def family(self) -> TaskFamily:
        """The family that was given, or else the registered one of that name."""
        return get_family(self.identity.family)

    @cached_property
    def config(self) -> RunConfig:
        """The resolved configuration, or an error if the run is of other versions of the code."""
        algo = self.identity.algo
        self._check_version(algo, self.identity.algo_version, version_of(algo))
        self._check_version(self.family.name, self.identity.family_version, self.family.version)
        where = f"'{self.directory.manifest_file}': config"
        config = from_dict(RunConfig, self.identity.config, where)
        now = identities(components_of(config.algorithm))
        for name in sorted({*now, *self.identity.components}):
            self._check_version(name, self.identity.components.get(name), now.get(name))
        return config

    @cached_property
    def algorithm(self) -> Algorithm:
        return make_algorithm(self.config.algorithm, self.family.spec)

    def _check_family(self) -> None:
        if self.family.name != self.identity.family:
            raise IdaqError(
                f"'{self.path}' is a run of '{self.identity.family}', and the family that is given "
                f"is '{self.family.name}'.",
                "Give the family that the run was made with.",
            )

    def _check_version(self, name: str, before: int | str | None, now: int | str | None) -> None:
        if comes_with_idaq(name):  # and is not named in its first version
            before, now = before or FIRST_VERSION, now or FIRST_VERSION
        if before == now:
            return
        if before is None or now is None:
            problem, instead = f"was trained with another '{name}'.", "use the code that trained it"
        elif isinstance(before, str) or isinstance(now, str):
            problem = f"was trained with other source code of '{name}'."
            instead = "restore the file that defines it"
        else:
            problem = f"is of version {before} of '{name}'; this idaq has version {now}."
            instead = "use the idaq that trained it"
        remedy = f"Train again in another directory, or {instead}."
        raise IdaqError(f"'{self.path}' {problem}", remedy)

    # --- Its seeds --------------------------------------------------------------------------

    def groups(self) -> list[list[int]]:
        """The groups of seeds so far."""
        file = self.directory.groups_file
        if not file.is_file():
            return []
        groups = read_json(file)
        if not (isinstance(groups, list) and all(map(_is_group, groups))) or _repeats(groups):
            raise IdaqError(f"'{file}' does not list groups of seeds.", REMEDY)
        return groups

    def seeds(self) -> list[int]:
        """All seeds so far."""
        return sorted(seed for group in self.groups() for seed in group)

    def split_of(self, seed: int) -> TaskSplit:
        """The split of a seed: of all tasks or, for validation, of the training tasks."""
        split = validation_split if self.identity.split == "validation" else split_tasks
        return split(self.family.num_tasks, seed)

    # --- Its data ---------------------------------------------------------------------------

    @property
    def data_place(self) -> Path:
        """Where the data that the run was trained on is, unless it has been moved."""
        return self.manifest.provenance.dataset or self.directory.data

    def open_data(self, place: Path) -> Dataset:
        """Open a dataset, which must be the one that the run is made from; it is verified once."""
        dataset = self._verified(place)
        check_dataset_family(dataset, self.family)
        generator, quality = dataset.metadata.get("generator"), dataset.metadata.get("quality")
        actual = {"sha256": dataset.fingerprint, "quality": quality}
        actual |= generator if isinstance(generator, dict) else {}
        if any(actual.get(key) != value for key, value in self.identity.data.items()):
            raise IdaqError(
                f"'{place}' is not the data that '{self.path}' was made from.",
                "Restore that dataset, or name it with `data`.",
            )
        return dataset

    def find_data(self) -> Dataset | None:
        """The data that the run was trained on, if it is still where it was.

        It is not checked against the family, which a report does not need.
        """
        place = self.data_place
        if not (place / METADATA_FILE).is_file():
            return None
        dataset = self._datasets.get(place.resolve()) or open_dataset(place)
        fingerprint = self.identity.data.get("sha256", dataset.fingerprint)
        is_same = (dataset.family, dataset.fingerprint) == (self.identity.family, fingerprint)
        return dataset if is_same else None

    def _verified(self, place: Path) -> Dataset:
        key = place.resolve()
        if key not in self._datasets:
            self._datasets[key] = open_dataset(place, self.family.spec)
        return self._datasets[key]

    # --- Its times --------------------------------------------------------------------------

    def record_time(self, stage: str, seconds: float) -> None:
        """Save a stage's wall time."""
        file = self.directory.timing_file
        times: Json = {}
        with suppress(IdaqError):  # damaged: it decides nothing, and is begun anew
            times = read_object(file) if file.is_file() else {}
        times[stage] = round(seconds, 3)
        write_json(file, times)


RunPlace = Run | RunDir | Path | str


def check_dataset_family(dataset: Dataset, family: TaskFamily) -> None:
    """Refuse data of another family or another number of tasks."""
    if dataset.family != family.name or dataset.num_tasks != family.num_tasks:
        raise IdaqError(
            f"'{dataset.path}' is data of {dataset.family} ({dataset.num_tasks} tasks), "
            f"and the run is of {family.name} ({family.num_tasks} tasks).",
            f"Collect data with `idaq collect {family.name}`.",
        )


def _is_group(group: object) -> bool:
    return bool(group) and list_of(is_count)(group)


def _repeats(groups: list[list[int]]) -> bool:
    seeds = [seed for group in groups for seed in group]
    return len(set(seeds)) < len(seeds)
