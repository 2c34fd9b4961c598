"""The command line: parse, call, print. Every command has its twin in `idaq.runs.api`.

What was asked for goes to stdout; progress, hints and errors go to stderr.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg, subcommand

from idaq.cli.bench import Bench
from idaq.errors import IdaqError

if TYPE_CHECKING:
    from idaq.runs.directory import RunDir
    from idaq.runs.run import Run as OpenRun
    from idaq.settings import AdaptConfig, RunConfig

Preset = Literal["default", "paper"]
Split = Literal["test", "validation"]
Quality = Literal["expert", "medium", "random", "replay"]


def _unset(metavar: str, default: str) -> Any:
    """How the help shows an option whose default is decided later."""
    return arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


AS_SET_UP = "as the run is set up"
Flag = Annotated[bool, arg(help_behavior_hint="")]
Family = Annotated[Positional[str], arg(metavar="FAMILY")]
Families = Annotated[
    Positional[tuple[str, ...]], arg(metavar="FAMILY [FAMILY ...]", help_behavior_hint="")
]
Workers = Annotated[int, _unset("INT", "one per core")]
Policies = Annotated[Path | None, _unset("DIR", "the family's own")]
Directories = Annotated[
    Positional[tuple[Path, ...]], arg(metavar="RUN [RUN ...]", help_behavior_hint="")
]
RunDirectory = Annotated[Positional[Path], arg(metavar="RUN")]
Out = Annotated[Path | None, _unset("DIR", "runs/FAMILY-[ALGORITHM-]PRESET")]
PresetInt = Annotated[int | None, _unset("INT", "the preset's")]
RunInt = Annotated[int | None, _unset("INT", AS_SET_UP)]
Settings = Annotated[
    UseAppendAction[tuple[tuple[str, ...], ...]],
    arg(metavar="NAME=VALUE [NAME=VALUE ...]", help_behavior_hint=""),
]
Methods = Annotated[
    UseAppendAction[tuple[tuple[str, ...], ...]],
    arg(
        metavar="METHOD [METHOD ...]",
        help_behavior_hint="(default: the algorithm's own comparison)",
    ),
]


@dataclass(frozen=True, kw_only=True)
class List:
    """Show what there is: task families, algorithms, presets, adaptation methods."""

    json: Flag = False
    """Print JSON for machines."""

    def run(self) -> None:
        from idaq.adapt.methods import METHODS, judge_needed, methods_of
        from idaq.algos.entries import ALGORITHMS
        from idaq.algos.presets import PRESETS
        from idaq.behaviour.quality import qualities_of
        from idaq.bench.paper import dataset_return
        from idaq.envs import FAMILIES
        from idaq.report.tables import plain_table

        families: list[dict[str, Any]] = [
            {
                "name": name,
                "tasks": family.num_tasks,
                "observation": family.spec.obs_dim,
                "action": family.spec.action_dim,
                "horizon": family.spec.horizon,
                "qualities": qualities_of(family),
                "paper_dataset_return": dataset_return(name),
            }
            for name, family in FAMILIES.items()
        ]
        methods = [
            {
                "name": method,
                "algorithms": [name for name in ALGORITHMS if method in methods_of(name)],
                "needs_models": judge_needed(method) is not None,
            }
            for method in METHODS
        ]
        if self.json:
            listed = {"families": families, "algorithms": list(ALGORITHMS)}
            _print_json(listed | {"presets": list(PRESETS), "methods": methods})
            return
        graded = [row["name"] for row in families if "medium" in row.pop("qualities")]
        Console().print(plain_table("Task families", families))
        print(f"Also with data of medium and replay quality: {', '.join(graded)}\n")
        Console().print(plain_table("Adaptation methods", methods))
        print(f"Presets: {', '.join(PRESETS)}")
        _say("Next: idaq run point-robot")


@dataclass(frozen=True, kw_only=True)
class Collect:
    """Log every task of a family with behaviour policies that know the task."""

    family: Family
    """Name of the task family (see `idaq list`)."""
    quality: Quality = "expert"
    """Who logs: the expert, policies from the middle of a training (`medium`) or from all along it
    (`replay`), or nobody who knows anything (`random`)."""
    policies: Policies = None
    """Behaviour policies of your own (see `idaq behaviour`)."""
    retrain: Flag = False
    """Train the policies first, in policies/FAMILY, where an interrupted training goes on."""
    out: Annotated[Path | None, _unset("DIR", "data/FAMILY")] = None
    """Directory of the new dataset; data/FAMILY-QUALITY where the quality is not expert."""
    trajectories: int = 45
    """Episodes per task."""
    seed: int = 0
    """Seed of the behaviour policies' noise."""
    workers: Workers = 0
    """Processes that run simulators."""

    def run(self) -> None:
        from idaq.behaviour.collect import collect
        from idaq.bench.paper import dataset_return
        from idaq.engine.pool import WorkerPool
        from idaq.envs import get_family
        from idaq.storage.dataset import open_dataset

        family = get_family(self.family)
        name = self.family if self.quality == "expert" else f"{self.family}-{self.quality}"
        out = Path("data") / name if self.out is None else self.out
        policies = self._retrained() if self.retrain else self.policies
        with WorkerPool(self.workers) as pool:
            collect(
                family,
                out,
                trajectories=self.trajectories,
                seed=self.seed,
                quality=self.quality,
                policies=policies,
                pool=pool,
            )
        dataset = open_dataset(out, family.spec)
        paper = dataset_return(family.name, self.quality)
        print(
            f"{out}: {dataset.num_tasks} tasks, {dataset.num_episodes:,} episodes, "
            f"{dataset.num_transitions:,} transitions, mean return "
            f"{dataset.episode_returns().mean():.2f}"
            + (f" (paper: {paper:.2f})" if paper is not None else "")
        )
        _say(f"Next: idaq train --data {out}")

    def _retrained(self) -> Path:
        """The directory of policies that have just been trained."""
        from idaq.behaviour.training import check_retraining, train_policies

        if self.policies is not None:
            raise IdaqError("--retrain trains policies of its own.", "Leave --policies out.")
        family, config = check_retraining(self.family, self.quality)
        path = Path("policies") / family.name
        train_policies(family, path, config, resume=True, workers=self.workers, say=_say)
        return path


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """Train the behaviour policies of a family with SAC: one policy, told the task, for all tasks.

    Checkpoints along the training are kept with their returns; `idaq collect --policies` logs data
    with them.
    """

    family: Family
    """Name of the task family (see `idaq list`)."""
    out: Annotated[Path | None, _unset("DIR", "policies/FAMILY")] = None
    """The directory of the policies; it must be new, or be given with --resume."""
    resume: Flag = False
    """Go on with an interrupted training; a finished one is printed."""
    minutes: Annotated[float | None, _unset("MINUTES", "until it is done")] = None
    """Stop after so long; go on later with --resume."""
    seed: int = 0
    """Seed of everything that is drawn."""
    workers: Workers = 0
    """Processes that run simulators."""
    set: Settings = ()
    """Any setting by its dotted name, e.g. --set num_rounds=100 sac.learning_rate=3e-4.
    DIR/run.json lists them all."""
    ship: Annotated[Path | None, _unset("DIR", "nowhere")] = None
    """Also copy the policies that log data, and nothing else, to a new directory."""
    json: Flag = False
    """Print the ladder of policies as JSON."""

    def run(self) -> None:
        from idaq.behaviour.config import behaviour_config
        from idaq.behaviour.ladder import ladder_rows, ship
        from idaq.behaviour.training import train_policies
        from idaq.config import override
        from idaq.envs import get_family
        from idaq.report.tables import plain_table

        family = get_family(self.family)
        config = behaviour_config(family)
        for assignment in (each for group in self.set for each in group):
            config = override(config, assignment)
        ladder = train_policies(
            family,
            Path("policies") / family.name if self.out is None else self.out,
            config,
            seed=self.seed,
            minutes=self.minutes,
            resume=self.resume,
            workers=self.workers,
            say=_say,
        )
        if self.ship is not None:
            ladder = ship(ladder, self.ship)
        rows = ladder_rows(ladder)
        if self.json:
            _print_json(rows)
        else:
            shown = [row for row in rows if row["logs"]]
            Console().print(plain_table(f"{ladder.path}: the policies that log data", shown))
        _say(f"Next: idaq collect {family.name} --quality medium --policies {ladder.path}")


@dataclass(frozen=True, kw_only=True)
class _Training:
    """Options of training that `train` and `run` share."""

    algorithm: Annotated[str, _unset("NAME", "the first of `idaq list`")] = ""
    """How agents are meta-trained; it decides which adaptation methods there are."""
    preset: Preset = "default"
    """`default`: our learner and adaptation; `paper`: the paper's hyper-parameters."""
    seeds: int = 3
    """How many seeds; each has its own split into training and test tasks."""
    first_seed: int = 0
    """The first seed; the others follow it."""
    out: Out = None
    """The run directory; it must be new, or be given with --resume."""
    resume: Flag = False
    """Go on with an interrupted run, or add seeds to it; a finished one is printed."""
    updates: PresetInt = None
    """Number of meta-updates."""
    ensemble_size: PresetInt = None
    """L, the number of reward and dynamics models; 0 trains none."""
    seeds_at_once: Annotated[int, _unset("INT", "1 on a CPU, all on a GPU")] = 0
    """How many seeds train as one program."""
    split: Split = "test"
    """`validation` splits the training tasks once more and never touches the test tasks."""
    set: Settings = ()
    """Any setting by its dotted name, e.g. --set algorithm.latent_dim=5 adapt.final=best.
    RUN/run.json lists them all."""

    def resolve(self, family: str) -> "RunConfig":
        import dataclasses

        from idaq.algos.resolve import resolve, with_ensemble_size
        from idaq.config import override

        config = resolve(self.preset, family, self.algorithm)
        if self.updates is not None:
            train = dataclasses.replace(config.train, num_updates=self.updates)
            config = dataclasses.replace(config, train=train)
        if self.ensemble_size is not None:
            config = with_ensemble_size(config, self.ensemble_size)
        for assignment in (each for group in self.set for each in group):
            config = override(config, assignment)
        return config

    def run_dir(self, family: str) -> "RunDir":
        from idaq.algos.entries import default_algorithm
        from idaq.runs.directory import RunDir

        named = "" if self.algorithm in ("", default_algorithm()) else f"{self.algorithm}-"
        default = Path("runs") / f"{family}-{named}{self.preset}"
        return RunDir(default if self.out is None else self.out)


@dataclass(frozen=True, kw_only=True)
class Train(_Training):
    """Meta-train agents offline on a dataset."""

    data: Annotated[Path, arg(metavar="DIR")]
    """The dataset directory (make one with `idaq collect`)."""

    def run(self) -> None:
        from idaq.algos.entries import ALGORITHMS
        from idaq.runs.api import dataset_family, train_all
        from idaq.runs.train_stage import Seeds

        family = dataset_family(self.data)
        config = self.resolve(family.name)
        run = train_all(
            self.run_dir(family.name),
            self.data,
            preset=self.preset,
            config=config,
            seeds=Seeds(count=self.seeds, first=self.first_seed, at_once=self.seeds_at_once),
            split=self.split,
            resume=self.resume,
        )
        print(f"trained seeds {', '.join(map(str, run.seeds()))}: {run.path}")
        method = ALGORITHMS[config.algorithm.kind].default_methods[0]
        _say(f"Next: idaq adapt {run.path} --method {method}")


@dataclass(frozen=True, kw_only=True)
class _Adaptation:
    """Options of adaptation; those not given are the run's own."""

    n_r: RunInt = None
    """Episodes of the reference stage."""
    n_i: RunInt = None
    """Episodes of the iterative stage, the final one included."""
    k: Annotated[float | None, _unset("PERCENT", AS_SET_UP)] = None
    """The threshold is the bottom k% quantile of the reference uncertainties."""
    n_e: RunInt = None
    """Episodes that every hypothesis runs."""
    reference: Annotated[str | None, _unset("SEARCH", AS_SET_UP)] = None
    """Which hypotheses of the prior the reference stage tries: `farthest`, `farthest-first`,
    `prior` or `zero`."""
    candidates: RunInt = None
    """How many random candidates `farthest` chooses from."""
    iterate: Annotated[str | None, _unset("SEARCH", AS_SET_UP)] = None
    """Iterative episodes run the `posterior`; or once that repeats, the `untried` hypothesis
    nearest to the best; or, with `search`, as long as nothing resembles the logs, the farthest."""
    accept: Annotated[
        Literal["threshold", "improvement"] | None, _unset("{threshold,improvement}", AS_SET_UP)
    ] = None
    """When an iterative episode joins the context."""
    final: Annotated[Literal["posterior", "best"] | None, _unset("{posterior,best}", AS_SET_UP)] = (
        None
    )
    """The final policy: posterior of the kept context, or the best hypothesis replayed."""
    expert_episodes: RunInt = None
    """How many logged episodes expert context is given."""

    def resolve(self, base: "AdaptConfig") -> "AdaptConfig":
        import dataclasses

        given = {
            "num_reference_episodes": self.n_r,
            "num_iterative_episodes": self.n_i,
            "keep_percent": self.k,
            "episodes_per_hypothesis": self.n_e,
            "reference": self.reference,
            "num_candidates": self.candidates,
            "iterate": self.iterate,
            "accept": self.accept,
            "final": self.final,
            "num_expert_episodes": self.expert_episodes,
        }
        changes: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        return dataclasses.replace(base, **changes)


@dataclass(frozen=True, kw_only=True)
class Adapt(_Adaptation):
    """Adapt trained agents to their test tasks with one method."""

    run_directory: RunDirectory
    """The run directory."""
    method: Annotated[str, arg(metavar="METHOD")] = "idaq-return"
    """How to adapt (see `idaq list`)."""
    name: Annotated[str | None, _unset("NAME", "the method")] = None
    """Store the results under RUN/adapt/NAME."""
    data: Annotated[Path | None, _unset("DIR", "the data that the run was made from")] = None
    """Where the dataset is that expert context is taken from."""
    workers: Workers = 0
    """Processes that run simulators."""
    resume: Flag = False
    """Complete unfinished results; finished ones are printed."""
    video: Flag = False
    """Also film the first seed's first, selected and final episode: RUN/videos/NAME-task-00.gif.
    Needs a simulator with a camera, and MuJoCo drawing without a screen."""
    video_task: Annotated[int | None, _unset("TASK", "the first test task")] = None
    """Which of the first seed's test tasks to film."""
    json: Flag = False
    """Print the summary as JSON."""

    def run(self) -> None:
        from idaq.runs.api import adapt_all
        from idaq.runs.run import Run

        if self.video_task is not None and not self.video:
            raise IdaqError("--video-task alone films nothing.", "Add --video.")
        run = Run.open(self.run_directory)
        if self.video:
            from idaq.report.video import check_video, write_video

            check_video(run, self.video_task)
        summary = adapt_all(
            run,
            self.method,
            config=self.resolve(run.config.adapt),
            name=self.name,
            data=self.data,
            resume=self.resume,
            workers=self.workers,
        )
        _print_json(summary) if self.json else _print_table(summary)
        _say_what_is_missing(run, summary)
        if self.video:
            name = self.method if self.name is None else self.name
            _say(f"video: {write_video(run, name, self.video_task)}")


@dataclass(frozen=True, kw_only=True)
class Run(_Training):
    """The whole job: collect, train, adapt with every method, draw figures.

    With several families, one's training overlaps the next one's collection and the adaptation of
    the one before; with --out, each gets a directory below it.
    """

    families: Families
    """Task families by name or pattern: point-robot, 'ml1/*' (see `idaq list`)."""
    methods: Methods = ()
    """Adaptation methods (see `idaq list`)."""
    trajectories: int = 45
    """Logged episodes per task."""
    data_seed: int = 0
    """Seed of the behaviour policies' noise."""
    quality: Quality = "expert"
    """Who logs the data (see `idaq collect --help`)."""
    policies: Policies = None
    """Behaviour policies of your own (see `idaq behaviour`)."""
    workers: Workers = 0
    """Processes that run simulators."""
    adaptation: Annotated[_Adaptation, tyro.conf.arg(name="")] = field(default_factory=_Adaptation)
    json: Flag = False
    """Print the summary as JSON; a list where there are several families."""

    def run(self) -> None:
        import dataclasses

        from idaq.envs import match_families
        from idaq.report.figures import write_figures
        from idaq.runs.directory import RunDir
        from idaq.runs.job import Finished, Job, run_jobs
        from idaq.runs.train_stage import Seeds

        families = match_families(self.families)
        jobs = []
        for family in families:
            config = self.resolve(family.name)
            directory = self.run_dir(family.name)
            if len(families) > 1 and self.out is not None:
                directory = RunDir(self.out / family.name)
            job = Job(
                run=directory,
                family=family,
                preset=self.preset,
                config=dataclasses.replace(config, adapt=self.adaptation.resolve(config.adapt)),
                methods=[each for group in self.methods for each in group],
                seeds=Seeds(count=self.seeds, first=self.first_seed, at_once=self.seeds_at_once),
                trajectories=self.trajectories,
                data_seed=self.data_seed,
                quality=self.quality,
                policies=self.policies,
                split=self.split,
                resume=self.resume,
            )
            jobs.append(job)
        outcomes = run_jobs(jobs, workers=self.workers, say=_say)
        done = [outcome for outcome in outcomes if isinstance(outcome, Finished)]
        if self.json and done:
            _print_json([summary for _, summary in done] if len(jobs) > 1 else done[0][1])
        for run, summary in done:
            if not self.json:
                _print_table(summary)
            _say_what_is_missing(run, summary)
            _say(f"results: {run.path}")
            for figure in write_figures(run):
                _say(f"figure: {figure}")
        errors = {
            job.family.name: outcome
            for job, outcome in zip(jobs, outcomes, strict=True)
            if isinstance(outcome, IdaqError)
        }
        if len(jobs) == 1 and errors:
            raise errors[families[0].name]
        if errors:
            problems = " ".join(f"{name}: {error}" for name, error in errors.items())
            raise IdaqError(
                f"{len(errors)} of {len(jobs)} families failed. {problems}",
                "Then go on with the same command and --resume.",
            )


@dataclass(frozen=True, kw_only=True)
class Report:
    """Print a run's results and draw its figures again, or make a page of many runs."""

    directories: Directories = ()
    """Run directories; with --html or --serve also what holds them, e.g. runs/bench."""
    html: Annotated[Path | None, _unset("FILE", "none")] = None
    """Write one self-contained page of all runs: tables, figures, an adaptation explorer."""
    serve: Flag = False
    """Show that page in a browser on this machine, and the runs as they progress."""
    port: int = 8765
    """Where to serve it."""
    json: Flag = False
    """Print the summary as JSON; a list where there are several runs."""

    def run(self) -> None:
        from idaq.report.page import write_page
        from idaq.runs.run import Run
        from idaq.runs.summary import summarise

        if self.serve:
            from idaq.report.serve import serve

            serve(self.directories or (Path("runs"),), self.port, _say)
            return
        if not self.directories:
            raise IdaqError(
                "No RUN is given.", "Name a run directory, e.g. runs/point-robot-default."
            )
        if self.html is not None:
            page = write_page(self.directories, self.html)
            _say(f"page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
            return
        runs = [Run.open(directory) for directory in self.directories]
        summaries = [summarise(run) for run in runs]
        if self.json:
            _print_json(summaries if len(runs) > 1 else summaries[0])
        for run, summary in zip(runs, summaries, strict=True):
            self._show(run, summary)

    def _show(self, run: "OpenRun", summary: dict[str, Any]) -> None:
        from idaq.report.figures import write_figures

        if not self.json:
            _print_table(summary)
        _say_what_is_missing(run, summary)
        for figure in write_figures(run):
            _say(f"figure: {figure}")


@dataclass(frozen=True, kw_only=True)
class Theory:
    """Check the paper's theory on finite task families, exactly, statement by statement."""

    check: Annotated[str | None, _unset("NAME", "all checks")] = None
    """One check by its name, with its notes."""
    v: Annotated[str, arg(metavar="FIRST..LAST")] = "3..10"
    """How many doors (tasks) the paper's example has."""
    figure: Annotated[Path | None, _unset("DIR", "no figures")] = None
    """Also draw the figures into this directory."""
    json: Flag = False
    """Print JSON for machines."""

    def run(self) -> int:
        from idaq.cli.theory import theory

        return theory(check=self.check, v=self.v, json=self.json, figure=self.figure)


Command = (
    Annotated[List, subcommand("list", prefix_name=False)]
    | Annotated[Collect, subcommand("collect", prefix_name=False)]
    | Annotated[Behaviour, subcommand("behaviour", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Adapt, subcommand("adapt", prefix_name=False)]
    | Annotated[Run, subcommand("run", prefix_name=False)]
    | Annotated[Report, subcommand("report", prefix_name=False)]
    | Annotated[Bench, subcommand("bench", prefix_name=False)]
    | Annotated[Theory, subcommand("theory", prefix_name=False)]
)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def _print_table(summary: dict[str, Any]) -> None:
    from idaq.report.tables import summary_table

    Console().print(summary_table(summary))


def _say_what_is_missing(run: "OpenRun", summary: dict[str, Any]) -> None:
    from idaq.runs.summary import without_results

    for name in without_results(run):
        _say(
            f"{name}: its results are gone, and summary.json is all that is left of it; remove "
            f"'{run.directory.summary_file}' if it shall go too"
        )
    shown = {row["method"] for row in summary["rows"]}
    for name in sorted(set(run.directory.adapt_names()) - shown):
        _say(f"{name}: not all seeds have results; complete them with `idaq adapt --resume`")


def _say(message: str) -> None:
    print(message, file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Run the program.

    0 when it did what was asked, 1 when the theory did not come out as it should, 2 for a mistake
    in the input.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every character
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        from importlib.metadata import version

        print(f"idaq {version('idaq')}")
        return 0
    command: Any = None
    try:
        command = tyro.cli(
            Command,
            prog="idaq",
            description="Offline meta-reinforcement learning with in-distribution online "
            "adaptation. Start with `idaq run point-robot`; `idaq --version` prints the version.",
            args=arguments or ["--help"],
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
        )
        if not isinstance(command, Theory):  # the one command that needs no JAX
            from idaq.engine.device import enable_compile_cache

            enable_compile_cache()
        code: int = command.run() or 0
        sys.stdout.flush()
        return code
    except IdaqError as error:
        return _fail(str(error))
    except BrokenPipeError:  # whoever reads stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        place = f" '{error.filename}'" if error.filename else ""
        return _fail(
            f"Cannot read or write{place}: {error.strerror or error}. "
            "Free some space, check the permissions, or choose another directory."
        )
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        return _fail(
            "There is not enough memory for this. Lower the sizes that you raised (--n-r, --n-i, "
            "--trajectories, --seeds-at-once, layers and batches), or use a larger machine."
        )
    except KeyboardInterrupt:
        can_resume = isinstance(command, _Training | Adapt | Behaviour)
        _say("\nidaq: stopped" + ("; go on with the same command and --resume" * can_resume))
        return 130
    return 0


def _is_out_of_memory(error: Exception) -> bool:
    """JAX has no exception of its own for this."""
    return isinstance(error, MemoryError) or "out of memory" in str(error).lower()


def _fail(message: str) -> int:
    _say(f"idaq: {message}")
    return 2
