"""The command line: parse, call, print. Every command has its twin in `idaq.pipeline`."""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from tyro.conf import Positional, subcommand

from idaq.errors import IdaqError

if TYPE_CHECKING:
    from idaq.adapt.config import AdaptConfig
    from idaq.presets import RunConfig

Preset = Literal["default", "paper"]
Split = Literal["test", "validation"]


@dataclass(frozen=True, kw_only=True)
class List:
    """Show what there is: task families, presets, adaptation methods."""

    json: bool = False
    """Print JSON for machines."""

    def run(self) -> None:
        from idaq.adapt import method_names, needs_models
        from idaq.bench.paper import dataset_return
        from idaq.envs import FAMILIES
        from idaq.presets import PRESETS

        families = [
            {
                "name": name,
                "tasks": family.num_tasks,
                "observation": family.spec.obs_dim,
                "action": family.spec.action_dim,
                "horizon": family.spec.horizon,
                "paper_dataset_return": dataset_return(name),
            }
            for name, family in FAMILIES.items()
        ]
        methods = [{"name": m, "needs_models": needs_models(m)} for m in method_names()]
        if self.json:
            _print_json({"families": families, "presets": list(PRESETS), "methods": methods})
            return
        console = Console()
        console.print(_table("Task families", families))
        console.print(_table("Adaptation methods", methods))
        console.print(f"Presets: {', '.join(PRESETS)}")
        console.print("Next: idaq run point-robot")


@dataclass(frozen=True, kw_only=True)
class Collect:
    """Log every task of a family with a behaviour policy that knows the task."""

    family: Positional[str]
    """Name of the task family (see `idaq list`)."""
    out: Path | None = None
    """Directory of the new dataset [default: data/FAMILY]."""
    trajectories: int = 45
    """Episodes per task."""
    seed: int = 0
    """Seed of the behaviour policies' noise."""

    def run(self) -> None:
        from idaq.bench.paper import dataset_return
        from idaq.data.collect import collect
        from idaq.data.store import open_dataset
        from idaq.envs import get_family

        family = get_family(self.family)
        out = self.out or Path("data") / self.family
        collect(family, out, trajectories=self.trajectories, seed=self.seed)
        dataset = open_dataset(out, family.spec)
        paper = dataset_return(family.name)
        Console().print(
            f"{out}: {dataset.num_tasks} tasks, {dataset.num_episodes:,} episodes, "
            f"{dataset.num_transitions:,} transitions, mean return "
            f"{dataset.episode_returns().mean():.2f}"
            + (f" (paper: {paper:.2f})" if paper is not None else "")
        )


@dataclass(frozen=True, kw_only=True)
class _Training:
    """Options of training that `train` and `run` share."""

    preset: Preset = "default"
    """`default`: our learner and adaptation; `paper`: the paper's hyper-parameters."""
    seeds: int = 3
    """How many seeds; each has its own split into training and test tasks."""
    first_seed: int = 0
    """The first seed."""
    out: Path | None = None
    """Run directory [default: runs/FAMILY-PRESET]."""
    resume: bool = False
    """Go on with an interrupted run; a finished one is printed."""
    updates: int | None = None
    """Number of meta-updates [default: the preset's]."""
    ensemble_size: int | None = None
    """L, the number of reward and dynamics models; 0 trains none [default: the preset's]."""
    seeds_at_once: int = 0
    """How many seeds train as one program [default: 1 on a CPU, all on a GPU]."""
    split: Split = "test"
    """`validation` splits the training tasks once more and never touches the test tasks."""
    set: tuple[str, ...] = ()
    """Any setting by its dotted name, e.g. --set algorithm.latent_dim=5 adapt.final=best."""

    def resolve(self, family: str) -> "RunConfig":
        import dataclasses

        from idaq.config import override
        from idaq.presets import resolve, with_ensemble_size

        config = resolve(self.preset, family)
        if self.updates is not None:
            train = dataclasses.replace(config.train, num_updates=self.updates)
            config = dataclasses.replace(config, train=train)
        if self.ensemble_size is not None:
            config = with_ensemble_size(config, self.ensemble_size)
        for assignment in self.set:
            config = override(config, assignment)
        return config

    def directory(self, family: str) -> Path:
        return self.out or Path("runs") / f"{family}-{self.preset}"


@dataclass(frozen=True, kw_only=True)
class Train(_Training):
    """Meta-train agents offline on a dataset."""

    data: Path
    """The dataset directory (make one with `idaq collect`)."""

    def run(self) -> None:
        from idaq.data.store import open_dataset
        from idaq.envs import get_family
        from idaq.pipeline import Seeds, check_dataset_family, start_run, train_run
        from idaq.run_dir import RunDir

        dataset = open_dataset(self.data)
        family = get_family(dataset.family)
        dataset = open_dataset(self.data, family.spec)
        check_dataset_family(dataset, family)
        config = self.resolve(family.name)
        seeds = Seeds(count=self.seeds, first=self.first_seed, at_once=self.seeds_at_once)
        run = RunDir(self.directory(family.name))
        start_run(
            run,
            family=family,
            preset=self.preset,
            config=config,
            data={"sha256": dataset.fingerprint},
            split=self.split,
            resume=self.resume,
            dataset_path=self.data,
        )
        with run.locked():
            train_run(run, dataset, seeds)
        Console().print(f"trained {self.seeds} seeds: {run.path}")
        Console().print(f"Next: idaq adapt {run.path} --method idaq-return")


@dataclass(frozen=True, kw_only=True)
class _Adaptation:
    """Options of adaptation; those not given are the run's own."""

    n_r: int | None = None
    """Episodes of the reference stage."""
    n_i: int | None = None
    """Episodes of the iterative stage, the final one included."""
    k: float | None = None
    """The threshold is the bottom k% quantile of the reference uncertainties."""
    n_e: int | None = None
    """Episodes that every hypothesis runs."""
    reference: Literal["farthest", "farthest-first", "prior", "zero"] | None = None
    """Which hypotheses of the prior the reference stage tries."""
    candidates: int | None = None
    """How many random candidates `farthest` chooses from."""
    accept: Literal["threshold", "improvement"] | None = None
    """When an iterative episode joins the context."""
    final: Literal["posterior", "best"] | None = None
    """The final policy: posterior of the kept context, or the best hypothesis replayed."""
    expert_episodes: int | None = None
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
            "accept": self.accept,
            "final": self.final,
            "num_expert_episodes": self.expert_episodes,
        }
        changes: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        return dataclasses.replace(base, **changes)


@dataclass(frozen=True, kw_only=True)
class Adapt(_Adaptation):
    """Adapt trained agents to their test tasks with one method."""

    run_directory: Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run directory."""
    method: str = "idaq-return"
    """How to adapt (see `idaq list`)."""
    name: str | None = None
    """Store the results under RUN/adapt/NAME [default: the method]."""
    data: Path | None = None
    """Dataset that expert context is taken from [default: the run's]."""
    resume: bool = False
    """Complete unfinished results; finished ones are printed."""
    json: bool = False
    """Print the summary as JSON."""

    def run(self) -> None:
        from idaq.pipeline import adapt_run, run_config
        from idaq.run_dir import RunDir
        from idaq.summary import summarise

        run = RunDir(self.run_directory)
        config = self.resolve(run_config(run).adapt)
        with run.locked():
            adapt_run(
                run,
                self.method,
                config=config,
                name=self.name,
                data=self.data,
                resume=self.resume,
            )
            summary = summarise(run)
        _print_summary(summary, self.json)


@dataclass(frozen=True, kw_only=True)
class Run(_Training):
    """The whole job on one family: collect, train, adapt with every method, draw figures."""

    family: Positional[str]
    """Name of the task family (see `idaq list`)."""
    methods: tuple[str, ...] = ()
    """Adaptation methods [default: the five of the paper]."""
    trajectories: int = 45
    """Logged episodes per task."""
    data_seed: int = 0
    """Seed of the behaviour policies' noise."""
    adaptation: Annotated[_Adaptation, tyro.conf.arg(name="")] = field(default_factory=_Adaptation)
    json: bool = False
    """Print the summary as JSON."""

    def run(self) -> None:
        import dataclasses

        from idaq.adapt import DEFAULT_METHODS
        from idaq.envs import get_family
        from idaq.pipeline import Seeds, run_all
        from idaq.report.figures import write_figures
        from idaq.run_dir import RunDir

        family = get_family(self.family)
        config = self.resolve(family.name)
        adapt = self.adaptation.resolve(config.adapt)
        log = Console(stderr=True)
        run = RunDir(self.directory(family.name))
        summary = run_all(
            run,
            family,
            preset=self.preset,
            config=dataclasses.replace(config, adapt=adapt),
            methods=self.methods or DEFAULT_METHODS,
            seeds=Seeds(count=self.seeds, first=self.first_seed, at_once=self.seeds_at_once),
            trajectories=self.trajectories,
            data_seed=self.data_seed,
            split=self.split,
            resume=self.resume,
            say=log.print,
        )
        figures = write_figures(run)
        _print_summary(summary, self.json)
        log.print(f"results: {run.path}")
        for figure in figures:
            log.print(f"figure: {figure}")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Print a run's results and draw its figures again, from what is saved."""

    run_directory: Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run directory."""
    json: bool = False
    """Print the summary as JSON."""

    def run(self) -> None:
        from idaq.report.figures import write_figures
        from idaq.run_dir import RunDir
        from idaq.summary import summarise

        run = RunDir(self.run_directory)
        summary = summarise(run)
        figures = write_figures(run)
        _print_summary(summary, self.json)
        for figure in figures:
            Console(stderr=True).print(f"figure: {figure}")


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Updates per second, the share of the machine's matmul rate, adaptation overhead, memory."""

    updates: int = 20
    """Updates to time, per learner and shape."""
    out: Path | None = None
    """Also write the JSON here."""
    json: bool = False
    """Print JSON for machines."""

    def run(self) -> None:
        from idaq.atomic import write_json
        from idaq.bench.speed import measure, speed_tables

        result = measure(self.updates)
        if self.out is not None:
            write_json(self.out, result)
        if self.json:
            _print_json(result)
            return
        for table in speed_tables(result):
            Console().print(table)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Benchmarks."""

    what: Annotated[Speed, subcommand("speed", prefix_name=False)]

    def run(self) -> None:
        self.what.run()


Command = (
    Annotated[List, subcommand("list", prefix_name=False)]
    | Annotated[Collect, subcommand("collect", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Adapt, subcommand("adapt", prefix_name=False)]
    | Annotated[Run, subcommand("run", prefix_name=False)]
    | Annotated[Report, subcommand("report", prefix_name=False)]
    | Annotated[Bench, subcommand("bench", prefix_name=False)]
)


def _table(title: str, rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name.replace("_", " "))
    for row in rows:
        table.add_row(
            *(("yes" if v else "no") if isinstance(v, bool) else str(v) for v in row.values())
        )
    return table


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def _print_summary(summary: dict[str, Any], as_json: bool) -> None:
    from idaq.report.tables import summary_table

    if as_json:
        _print_json(summary)
    else:
        Console().print(summary_table(summary))


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 when it did what was asked, 2 for a mistake in the input."""
    command = tyro.cli(
        Command,
        prog="idaq",
        description="Offline meta-reinforcement learning with in-distribution online adaptation. "
        "Start with: idaq run point-robot",
        args=arguments,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    try:
        _enable_compile_cache()
        command.run()
    except IdaqError as error:
        return _fail(str(error))
    except OSError as error:
        place = f" '{error.filename}'" if error.filename else ""
        return _fail(
            f"Cannot read or write{place}: {error.strerror or error}. "
            "Free some space, check the permissions, or choose another directory."
        )
    except KeyboardInterrupt:
        print("\nidaq: stopped; go on with the same command and --resume", file=sys.stderr)
        return 130
    return 0


def _fail(message: str) -> int:
    print(f"idaq: {message}", file=sys.stderr)
    return 2


def _enable_compile_cache() -> None:
    """Keep compiled programs between runs, in the user's cache directory."""
    import jax

    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    settings = {
        "jax_compilation_cache_dir": str(base / "idaq" / "xla"),
        "jax_persistent_cache_min_compile_time_secs": 0.5,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    sys.exit(main())
