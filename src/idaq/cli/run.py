"""`idaq run`: the whole job."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from idaq.cli.adapt import Adaptation
from idaq.cli.flags import in_flags
from idaq.cli.options import Families, Flag, Methods, Policies, Workers
from idaq.cli.output import print_json, print_table, say, say_what_is_missing
from idaq.cli.train import Training
from idaq.errors import IdaqError
from idaq.settings import DEFAULT_QUALITY, DEFAULT_TRAJECTORIES, Quality

if TYPE_CHECKING:
    from idaq.envs.family import TaskFamily
    from idaq.runs.job import Finished, Job


@dataclass(frozen=True, kw_only=True)
class Run(Training):
    """The whole job: collect, train, adapt with every method, draw figures.

    With several families, one's training overlaps the next one's collection and the adaptation of
    the one before; with --out, each gets a directory below it.
    """

    families: Families
    """Task families by name or pattern: point-robot, 'ml1/*' (see `idaq list`)."""
    methods: Methods = ()
    """Adaptation methods (see `idaq list`)."""
    trajectories: int = DEFAULT_TRAJECTORIES
    """Logged episodes per task."""
    data_seed: int = 0
    """Seed of the behaviour policies' noise."""
    quality: Quality = DEFAULT_QUALITY
    """Who logs the data (see `idaq collect --help`)."""
    policies: Policies = None
    """Behaviour policies of your own (see `idaq behaviour`)."""
    workers: Workers = 0
    """Processes that run simulators."""
    adaptation: Annotated[Adaptation, arg(name="")] = field(default_factory=Adaptation)
    json: Flag = False
    """Print the summary as JSON; a list where there are several families."""

    def run(self) -> None:
        from idaq.envs import match_families
        from idaq.runs.job import Finished, run_jobs

        if not self.families:
            raise IdaqError("No FAMILY is given.", "See `idaq list` and `idaq run --help`.")
        families = match_families(self.families)
        jobs = [self._job(family, len(families)) for family in families]
        outcomes = run_jobs(jobs, workers=self.workers, say=lambda text: say(in_flags(text, self)))
        self._show([outcome for outcome in outcomes if isinstance(outcome, Finished)], len(jobs))
        errors = {
            family.name: outcome
            for family, outcome in zip(families, outcomes, strict=True)
            if isinstance(outcome, IdaqError)
        }
        if errors:
            raise _all_in_one(errors, len(jobs))

    def _job(self, family: "TaskFamily", num_families: int) -> "Job":
        from idaq.runs.directory import RunDir
        from idaq.runs.job import Job

        config = self.resolve(family.name)
        directory = self.run_dir(family.name)
        if num_families > 1 and self.out is not None:
            directory = RunDir(self.out / family.name)
        return Job(
            run=directory,
            family=family,
            preset=self.preset,
            config=replace(config, adapt=self.adaptation.resolve(config.adapt)),
            methods=[each for group in self.methods for each in group],
            seeds=self.chosen_seeds,
            trajectories=self.trajectories,
            data_seed=self.data_seed,
            quality=self.quality,
            policies=self.policies,
            split=self.split,
            resume=self.resume,
        )

    def _show(self, done: "list[Finished]", num_jobs: int) -> None:
        from idaq.report.figures import write_figures

        if self.json and done:
            summaries = [summary for _, summary in done]
            print_json(summaries if num_jobs > 1 else summaries[0])
        for run, summary in done:
            if not self.json:
                print_table(summary)
            say_what_is_missing(run, summary)
            say(f"results: {run.path}")
            for figure in write_figures(run):
                say(f"figure: {figure}")


def _all_in_one(errors: dict[str, IdaqError], num_jobs: int) -> IdaqError:
    """One error for all families that failed."""
    if num_jobs == 1:
        (error,) = errors.values()
        return error
    problems = " ".join(f"{name}: {error}" for name, error in errors.items())
    return IdaqError(
        f"{len(errors)} of {num_jobs} families failed. {problems}",
        "Then go on with the same command and --resume.",
    )
