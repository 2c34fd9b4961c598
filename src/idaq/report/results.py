"""The saved results of a run, as the figures need them."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idaq.config import from_dict
from idaq.errors import IdaqError
from idaq.runs.directory import RunDir, read_json
from idaq.runs.statistics import per_seed_mean
from idaq.runs.summary import RawResults, data_quality, load_results, method_order, subject_of
from idaq.settings import AdaptConfig
from idaq.storage.dataset import METADATA_FILE, Dataset, open_dataset

DRAWN_ARRAYS = ("tasks", "kept")  # beside the returns


@dataclass(frozen=True)
class MethodResults:
    """All seeds of one method. The last episode is scored, and is not judged as context."""

    name: str
    num_reference_episodes: int
    seeds: list[RawResults]

    @property
    def first(self) -> RawResults:
        return self.seeds[0]

    @property
    def num_episodes(self) -> int:
        return int(self.first["returns"].shape[1])

    @property
    def has_uncertainty(self) -> bool:
        return "uncertainty" in self.first

    def seed_means(self) -> NDArray[np.float64]:
        """The return, averaged over each seed's tasks, [seeds, episodes]."""
        return per_seed_mean(np.stack([results["returns"] for results in self.seeds]))

    def reference_threshold(self, task: int) -> float:
        """The threshold that the reference stage set, which is always an observed uncertainty.

        The saved `threshold` is that at the end; where only improvements are accepted it has
        followed the best episode since.
        """
        reference = slice(0, self.num_reference_episodes)
        kept = self.first["kept"][task, reference]
        values = self.first["uncertainty"][task, reference][kept]
        return float(values.max()) if len(values) else math.nan


@dataclass(frozen=True)
class RunResults:
    """Every method that has results for all seeds, in the order in which tables list them."""

    family: str
    algo: str
    quality: str  # of the data
    split: str
    seeds: list[int]
    methods: dict[str, MethodResults]

    @property
    def example(self) -> int:
        """The place of the first seed's most typical task, which stands for all.

        It is the task whose final returns are nearest to every method's mean, in units of the
        spread over tasks, so that no method is shown at its best or at its worst.
        """
        distance = 0.0
        for method in self.methods.values():
            final = method.first["returns"][:, -1].astype(np.float64)
            distance = distance + np.abs(final - final.mean()) / (final.std() or 1.0)
        return int(np.argmin(distance))

    @property
    def subject(self) -> str:
        """What the run is about, in words."""
        return subject_of(self.family, self.quality, self.algo)

    @property
    def example_title(self) -> str:
        """What the example is, in words."""
        task = next(iter(self.methods.values())).first["tasks"][self.example]
        kind = "test task" if self.split == "test" else "held-out training task"
        return f"{self.subject}, seed {self.seeds[0]}, {kind} {task}"

    @property
    def is_on_a_plane(self) -> bool:
        """Whether the trajectories are saved and can be drawn."""
        arrays = [seed for method in self.methods.values() for seed in method.seeds]
        return all(
            {"observations", "valid"} <= set(each) and each["observations"].shape[-1] == 2
            for each in arrays
        )


def load_run(run: RunDir) -> RunResults:
    """Read all complete results of a run."""
    identity = run.manifest()["identity"]
    seeds = run.seeds()
    methods = {
        name: _load_method(run, name, seeds)
        for name in sorted(run.adapt_names(), key=method_order)
        if seeds and all(run.result_file(name, seed).is_file() for seed in seeds)
    }
    if not methods:
        raise IdaqError(
            f"'{run.path}' has no complete adaptation results to draw.",
            f"Make some with `idaq adapt {run.path}`, or finish the run with --resume.",
        )
    return RunResults(
        family=identity["family"],
        algo=identity["algo"],
        quality=data_quality(run),
        split=identity["split"],
        seeds=seeds,
        methods=methods,
    )


def _load_method(run: RunDir, name: str, seeds: list[int]) -> MethodResults:
    file = run.adapt(name) / "config.json"
    saved = read_json(file)
    values = saved.get("config") if isinstance(saved, dict) else None
    config = from_dict(AdaptConfig, values, f"'{file}': config")
    results = [load_results(run, name, seed) for seed in seeds]
    for seed, arrays in zip(seeds, results, strict=True):
        absent = [array for array in DRAWN_ARRAYS if array not in arrays]
        if absent:
            raise IdaqError(
                f"'{run.result_file(name, seed)}' lacks {', '.join(absent)}.",
                "Remove it and adapt again with --resume.",
            )
    return MethodResults(name, config.num_reference_episodes, results)


def load_dataset(run: RunDir) -> Dataset | None:
    """The data that the run was trained on, if it is still where it was."""
    manifest = run.manifest()
    identity, trained_on = manifest["identity"], manifest["provenance"].get("dataset")
    place = Path(trained_on) if trained_on else run.data
    if not (place / METADATA_FILE).is_file():
        return None
    dataset = open_dataset(place)
    fingerprint = identity["data"].get("sha256", dataset.fingerprint)
    is_same = dataset.family == identity["family"] and dataset.fingerprint == fingerprint
    return dataset if is_same else None
