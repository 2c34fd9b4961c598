"""The saved results of a run, as the figures need them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idaq.errors import IdaqError
from idaq.runs.labels import HEADLINE, added_methods, subject_of
from idaq.runs.results import (
    RawResults,
    adaptation_config,
    anytime_returns,
    load_seeds,
    reference_thresholds,
)
from idaq.runs.run import Run, RunPlace
from idaq.runs.statistics import per_seed_mean
from idaq.runs.summary import complete_names, data_quality
from idaq.settings import AdaptConfig

DRAWN_ARRAYS = ("tasks", "kept")  # besides the returns


@dataclass(frozen=True)
class MethodResults:
    """All seeds of one method. The last episode is scored, and is not judged as context."""

    name: str
    config: AdaptConfig
    seeds: list[RawResults]

    @property
    def num_reference_episodes(self) -> int:
        return self.config.num_reference_episodes

    @property
    def first(self) -> RawResults:
        return self.seeds[0]

    @property
    def num_episodes(self) -> int:
        return int(self.first["returns"].shape[1])

    @property
    def has_uncertainty(self) -> bool:
        return "uncertainty" in self.first

    @property
    def judges_by_return(self) -> bool:
        """Whether its uncertainty is minus the return, up to rounding."""
        if self.name == HEADLINE or not self.has_uncertainty:
            return self.has_uncertainty
        return np.allclose(self.first["uncertainty"], -self.first["returns"], rtol=1e-4, atol=1e-4)

    def seed_means(self) -> NDArray[np.float64]:
        """The return, averaged over each seed's tasks, [seeds, episodes]."""
        return per_seed_mean(np.stack([results["returns"] for results in self.seeds]))

    def anytime_means(self) -> NDArray[np.float64] | None:
        """The same had the budget ended after 1, 2, ... episodes; None if results do not say."""
        found = [anytime_returns(results) for results in self.seeds]
        known = [each for each in found if each is not None]
        return per_seed_mean(np.stack(known)) if len(known) == len(found) else None

    def reference_threshold(self, task: int) -> float:
        """The threshold that the reference stage set, which is always an observed uncertainty.

        The saved `threshold` is the final one: where only improvements are accepted, it has
        followed the best episode since.
        """
        return float(reference_thresholds(self.first, self.num_reference_episodes)[task])


@dataclass(frozen=True)
class RunResults:
    """Every method that has results for all seeds, in the order in which tables list them."""

    family: str
    algo: str
    quality: str  # of the data
    split: str
    seeds: list[int]
    methods: dict[str, MethodResults]
    components: tuple[str, ...] = ()  # that come from outside the package

    @property
    def example(self) -> int:
        """The index of the first seed's most typical task, which stands for all.

        Its final returns are nearest to the methods' means, in units of the spread over tasks,
        so that no method is shown at its best or at its worst.
        """
        distance = 0.0
        for method in self.methods.values():
            final = method.first["returns"][:, -1].astype(np.float64)
            distance = distance + np.abs(final - final.mean()) / (final.std() or 1.0)
        return int(np.argmin(distance))

    def drawn(self, names: Sequence[str]) -> list[MethodResults]:
        """The methods of those names, then those from outside that judge episodes."""
        outside = [name for name in added_methods(self.methods) if name not in names]
        judging = [name for name in outside if self.methods[name].has_uncertainty]
        return [self.methods[name] for name in (*names, *judging) if name in self.methods]

    @property
    def configs(self) -> dict[str, AdaptConfig]:
        """What every method was run with."""
        return {name: method.config for name, method in self.methods.items()}

    @property
    def subject(self) -> str:
        """What the run is about, in words."""
        return subject_of(self.family, self.quality, self.algo, self.components)

    @property
    def example_title(self) -> str:
        """What the example is, in words."""
        task = next(iter(self.methods.values())).first["tasks"][self.example]
        kind = "test task" if self.split == "test" else "held-out training task"
        return f"{self.subject}, seed {self.seeds[0]}, {kind} {task}"

    @property
    def is_on_a_plane(self) -> bool:
        """Whether the trajectories are saved and two-dimensional."""
        arrays = [seed for method in self.methods.values() for seed in method.seeds]
        return all(
            {"observations", "valid"} <= set(each) and each["observations"].shape[-1] == 2
            for each in arrays
        )


def load_run(run: RunPlace) -> RunResults:
    """Read all complete results of a run."""
    run = Run.open(run)
    seeds = run.seeds()
    names = complete_names(run.directory, seeds)
    if not names:
        raise IdaqError(
            f"'{run.path}' has no complete adaptation results to draw.",
            f"Make some with `idaq adapt {run.path}`, or finish the run with `resume=True`.",
        )
    return RunResults(
        family=run.identity.family,
        algo=run.identity.algo,
        quality=data_quality(run.directory),
        split=run.identity.split,
        seeds=seeds,
        methods={name: _load_method(run, name, seeds) for name in names},
        components=tuple(sorted(run.identity.components)),
    )


def _load_method(run: Run, name: str, seeds: list[int]) -> MethodResults:
    config = adaptation_config(run.directory, name)
    results = load_seeds(run, name, seeds)
    for seed, arrays in zip(seeds, results, strict=True):
        absent = [array for array in DRAWN_ARRAYS if array not in arrays]
        if absent:
            raise IdaqError(
                f"'{run.directory.result_file(name, seed)}' lacks {', '.join(absent)}.",
                "Remove it and adapt again with `resume=True`.",
            )
    return MethodResults(name, config, results)
