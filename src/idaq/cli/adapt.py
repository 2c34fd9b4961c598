"""`idaq adapt`, and the options of adaptation."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from idaq.cli.options import (
    AS_SET_UP,
    FirstSearch,
    Flag,
    NextSearch,
    RunAccept,
    RunDirectory,
    RunFinal,
    RunInt,
    Workers,
    unset,
)
from idaq.cli.output import print_json, print_table, say, say_what_is_missing
from idaq.errors import IdaqError
from idaq.settings import AdaptConfig, split_episodes

ADAPT_SETTINGS = {  # of options that are named differently
    "n_r": "num_reference_episodes",
    "n_i": "num_iterative_episodes",
    "k": "keep_percent",
    "n_e": "episodes_per_hypothesis",
    "candidates": "num_candidates",
    "expert_episodes": "num_expert_episodes",
}


def _settings_of(option: str) -> set[str]:
    """What an option sets."""
    if option == "episodes":
        return {ADAPT_SETTINGS["n_r"], ADAPT_SETTINGS["n_i"]}
    return {ADAPT_SETTINGS.get(option, option)}


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """Options of adaptation; those not given are the run's own."""

    episodes: RunInt = None
    """The whole budget, split into halves: the reference stage and the iterative one."""
    n_r: RunInt = None
    """Episodes of the reference stage."""
    n_i: RunInt = None
    """Episodes of the iterative stage, the final one included."""
    k: Annotated[float | None, unset("PERCENT", AS_SET_UP)] = None
    """The threshold is the bottom k% quantile of the reference uncertainties."""
    n_e: RunInt = None
    """Episodes that every hypothesis runs."""
    reference: FirstSearch = None
    """Which hypotheses the reference stage tries; `bayesian`, where a Gaussian process expects
    most."""
    candidates: RunInt = None
    """How many random candidates `farthest` chooses from."""
    iterate: NextSearch = None
    """Iterative episodes run the `posterior`; with `untried`, once that repeats, the untried
    hypothesis nearest to the best; with `search`, the farthest until one resembles the logs;
    with `bayesian`, as above."""
    accept: RunAccept = None
    """When an iterative episode joins the context."""
    final: RunFinal = None
    """The final policy: posterior of the kept context, or the best hypothesis replayed."""
    expert_episodes: RunInt = None
    """How many logged episodes expert context is given."""

    def given(self) -> dict[str, Any]:
        """The options that were given."""
        values = {field.name: getattr(self, field.name) for field in fields(Adaptation)}
        return {name: value for name, value in values.items() if value is not None}

    def resolve(self, base: AdaptConfig) -> AdaptConfig:
        given = self.given()
        budget = given.pop("episodes", None)
        changes = {ADAPT_SETTINGS.get(name, name): value for name, value in given.items()}
        if budget is not None:
            stages = [f"--{name.replace('_', '-')}" for name in ("n_r", "n_i") if name in given]
            if stages:
                raise IdaqError(
                    f"--episodes is given, and {' and '.join(stages)} as well.",
                    "Give the whole budget, which is split by itself, or both of its stages.",
                )
            each = changes.get("episodes_per_hypothesis", base.episodes_per_hypothesis)
            changes |= split_episodes(budget, each)
        return replace(base, **changes)


@dataclass(frozen=True, kw_only=True)
class Adapt(Adaptation):
    """Adapt trained agents to their test tasks with one method."""

    run_directory: RunDirectory
    """The run directory."""
    method: Annotated[str | None, unset("METHOD", "the first of the algorithm's own")] = None
    """How to adapt (see `idaq list`)."""
    name: Annotated[str | None, unset("NAME", "the method")] = None
    """Store the results under RUN/adapt/NAME."""
    data: Annotated[Path | None, unset("DIR", "the data that the run was made from")] = None
    """Where the dataset is that expert context is taken from."""
    workers: Workers = 0
    """Processes that run simulators."""
    resume: Flag = False
    """Complete unfinished results; finished ones are printed."""
    video: Flag = False
    """Also film the first seed's first, selected and final episode: RUN/videos/NAME-task-00.gif.
    Needs a simulator with a camera, and MuJoCo drawing without a screen."""
    video_task: Annotated[int | None, unset("TASK", "the first test task")] = None
    """Which of the first seed's test tasks to film."""
    json: Flag = False
    """Print the summary as JSON."""

    def run(self) -> None:
        from idaq.adapt.methods import METHODS
        from idaq.algos.entries import ALGORITHMS
        from idaq.runs.api import adapt_all
        from idaq.runs.run import Run

        if self.video_task is not None and not self.video:
            raise IdaqError("--video-task alone films nothing.", "Add --video.")
        run = Run.open(self.run_directory)
        kind = run.config.algorithm.kind
        method = self.method or ALGORITHMS.get_entry(kind).default_methods[0]
        if self.video:
            from idaq.runs.replay import check_replay

            check_replay(run, self.video_task)
        summary = adapt_all(
            run,
            method,
            config=self.resolve(run.config.adapt),
            name=self.name,
            data=self.data,
            resume=self.resume,
            workers=self.workers,
        )
        print_json(summary) if self.json else print_table(summary)
        say_what_is_missing(run, summary)
        uses = METHODS.get_entry(method).uses
        for option in self.given():
            if not uses & _settings_of(option):
                say(f"--{option.replace('_', '-')} makes no difference to '{method}'")
        if self.video:
            from idaq.report.video import write_video
            from idaq.runs.replay import film_adaptation

            name = method if self.name is None else self.name
            say(f"video: {write_video(run, film_adaptation(run, name, self.video_task))}")
