"""`idaq bench list | run | status | table | figure | speed`: parse, call, print."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from tyro.conf import Positional, arg, subcommand

from idaq.bench.choices import (
    CPUS_PER_CELL,
    DEFAULT_ENGINE,
    DEFAULT_SCALE,
    GPUS_PER_CELL,
    Engine,
    Format,
    ScaleName,
)
from idaq.cli.flags import in_flags
from idaq.cli.options import DEFAULT_GRACE, Flag, Grace, Workers, unset, unset_choice
from idaq.cli.output import print_json, print_rows, say, show
from idaq.errors import IdaqError
from idaq.settings import PresetName

if TYPE_CHECKING:
    from idaq.bench.cells import Cell
    from idaq.bench.experiments import Experiment

MAX_TIMED = 1_000_000  # updates
DEFAULT_RESULTS = Path("runs") / "bench"
Name = Annotated[Positional[str], arg(metavar="NAME")]
Results = Annotated[Path, arg(metavar="DIR")]


@dataclass(frozen=True, kw_only=True)
class _Selection:
    """Which cells, and how much of each."""

    name: Name
    """The experiment (see `idaq bench list`)."""
    results: Results = DEFAULT_RESULTS
    """Where the results of all experiments are kept."""
    scale: Annotated[ScaleName | None, unset_choice(ScaleName, DEFAULT_SCALE)] = None
    """`smoke`: two rows, minutes; `fast`: the default preset, three seeds; `paper`: the paper's."""
    only: Annotated[str | None, unset("PATTERN", "all")] = None
    """Only the cells whose name matches, e.g. point-robot or 'push*'."""
    seeds: Annotated[int | None, unset("INT", "the scale's")] = None
    """How many seeds; more are added to what is there."""
    preset: Annotated[PresetName | None, unset_choice(PresetName, "the scale's")] = None
    """Train with this preset instead of the scale's."""

    def cells(self) -> "tuple[Experiment, list[Cell]]":
        return self.experiment, self.cells_at(self.chosen_scale)

    @property
    def experiment(self) -> "Experiment":
        from idaq.bench.experiments import get_experiment

        return get_experiment(self.name)

    def cells_at(self, scale: ScaleName) -> "list[Cell]":
        from idaq.bench.cells import make_cells

        return make_cells(
            self.experiment, scale, seeds=self.seeds, preset=self.preset, only=self.only
        )

    @property
    def chosen_scale(self) -> "ScaleName":
        return self.scale or DEFAULT_SCALE

    def options(self) -> str:
        """The options again, for the next command."""
        words = ["--scale", self.chosen_scale]
        if self.results != DEFAULT_RESULTS:
            words += ["--results", str(self.results)]
        for option, value in (
            ("--only", self.only),
            ("--seeds", self.seeds),
            ("--preset", self.preset),
        ):
            words += [option, str(value)] if value is not None else []
        return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class _Reading(_Selection):
    """A selection of results; without --scale, at the scale that has most of them."""

    scale: Annotated[ScaleName | None, unset_choice(ScaleName, "the one with results")] = None
    """`smoke`: two rows, minutes; `fast`: the default preset, three seeds; `paper`: the paper's."""

    @property
    def chosen_scale(self) -> "ScaleName":
        if self.scale is not None:
            return self.scale
        scales = (DEFAULT_SCALE, *get_args(ScaleName))
        return max(scales, key=self._num_parts)  # the first of equals

    def _num_parts(self, scale: ScaleName) -> int:
        """How much has been done at a scale."""
        from idaq.bench.status import status_of

        try:
            cells = self.cells_at(scale)
        except IdaqError:  # no cell matches
            return 0
        return sum(status_of(self.results, cell).parts for cell in cells)


@dataclass(frozen=True, kw_only=True)
class BenchList:
    """The paper's tables and figures as experiments, with their cells."""

    json: Flag = False
    """Print JSON for machines."""

    def run(self) -> None:
        from idaq.bench.cells import make_cells
        from idaq.bench.experiments import EXPERIMENTS, SCALES

        rows = []
        for experiment in EXPERIMENTS.values():
            found: dict[str, Any] = {"name": experiment.name}
            for scale in SCALES:
                cells = make_cells(experiment, scale)  # type: ignore[arg-type]
                ready = sum(cell.unavailable() is None for cell in cells)
                found[scale] = f"{ready}" if ready == len(cells) else f"{ready} of {len(cells)}"
            rows.append(found | {"title": experiment.title})
        if self.json:
            print_json(rows)
            return
        print_rows("Experiments, and their cells at each scale", rows)
        print("'n of m': the others need a family, quality or algorithm not in this version.")
        say("Next: idaq bench run quantifications --scale smoke")


@dataclass(frozen=True, kw_only=True)
class BenchRun(_Selection):
    """Run what is not done yet of an experiment; the same command goes on after an interrupt."""

    engine: Engine = DEFAULT_ENGINE
    """`ray` needs `pip install idaq[ray]`, and a results directory that all nodes see."""
    address: Annotated[str | None, unset("HOST:PORT", "a new local one")] = None
    """The Ray cluster to run on; `auto` finds the one that this machine belongs to."""
    cpus_per_cell: float = CPUS_PER_CELL
    """CPUs that Ray reserves for a cell."""
    gpus_per_cell: float = GPUS_PER_CELL
    """GPUs, or a share of one, that Ray reserves for a cell."""
    workers: Workers = 0
    """Processes that run simulators; with Ray, per cell."""
    grace: Grace = DEFAULT_GRACE
    """After SIGTERM, how long a training may take to save its state."""

    def run(self) -> None:
        from idaq.bench.runner import check_outcome, run_cells

        if self.address is not None and self.engine != "ray":
            raise IdaqError("--address is Ray's.", "Add --engine ray.")
        experiment, cells = self.cells()
        for cell in cells:
            reason = cell.unavailable()
            if reason:
                say(f"{cell.label}: not available, {reason}")
        try:
            statuses = run_cells(
                self.results,
                cells,
                engine=self.engine,
                workers=self.workers,
                address=self.address,
                cpus_per_cell=self.cpus_per_cell,
                gpus_per_cell=self.gpus_per_cell,
                say=lambda text: say(in_flags(text, self)),
            )
        except KeyboardInterrupt as stop:
            say(
                f"\nidaq: stopped; go on with `idaq bench run {self.name} {self.options()}`, "
                f"look with `idaq bench status {self.name} {self.options()}`"
            )
            raise SystemExit(getattr(stop, "code", 130)) from None
        check_outcome(statuses)
        done = sum(status.state == "done" for status in statuses.values())
        print(f"{experiment.name}: {done} of {len(cells)} cells done, in {self.results}")
        word = "table" if experiment.kind == "table" else "figure"
        say(f"Next: idaq bench {word} {self.name} {self.options()}")


@dataclass(frozen=True, kw_only=True)
class BenchStatus(_Reading):
    """Where every cell stands."""

    json: Flag = False
    """Print JSON for machines."""

    def run(self) -> None:
        from idaq.bench.status import status_of

        scale, rows = self.chosen_scale, []
        for cell in self.cells_at(scale):
            status = status_of(self.results, cell)
            rows.append(
                {
                    "name": cell.label,
                    "state": status.state,
                    "parts": f"{status.parts}/{status.of}",
                    "note": in_flags(status.note, self),
                    "directory": str(status.run.path) if status.run else "",
                }
            )
        if self.json:
            print_json(rows)
            return
        shown = [{k: v for k, v in row.items() if k != "directory"} for row in rows]
        print_rows(f"{self.name}, scale {scale}", shown)
        states = [row["state"] for row in rows]
        counts = {state: states.count(state) for state in dict.fromkeys(states)}
        print(", ".join(f"{count} {state}" for state, count in counts.items()))


@dataclass(frozen=True, kw_only=True)
class BenchTable(_Reading):
    """The table of an experiment, the paper's numbers beside ours."""

    format: Format = "md"
    """Markdown, CSV in full precision, or LaTeX."""

    def run(self) -> None:
        from idaq.bench.tables import make_table, render

        experiment, cells = self.cells()
        print(render(make_table(experiment, self.results, cells), self.format), end="")


@dataclass(frozen=True, kw_only=True)
class BenchFigure(_Reading):
    """Draw the figure of an experiment from what has been done."""

    out: Annotated[Path | None, unset("DIR", "RESULTS/figures")] = None
    """Where to write the pictures."""

    def run(self) -> None:
        from idaq.report.bench_figures import write_bench_figures

        experiment, cells = self.cells()
        out = self.out or self.results / "figures"
        for file in write_bench_figures(experiment, self.results, cells, out):
            print(file)


@dataclass(frozen=True, kw_only=True)
class BenchSpeed:
    """Measure: updates per second, share of the matmul rate, adaptation overhead, memory."""

    updates: int = 20
    """Updates to time, per learner and shape."""
    out: Annotated[Path | None, unset("FILE", "none")] = None
    """Also write the JSON here."""
    json: Flag = False
    """Print JSON for machines."""

    def run(self) -> None:
        from idaq.bench.speed.measure import measure
        from idaq.bench.speed.tables import speed_tables
        from idaq.storage.atomic import json_text
        from idaq.storage.outputs import SPEED, SPEED_MARK, check_output, output_file

        if not 1 <= self.updates <= MAX_TIMED:
            raise IdaqError(f"--updates is {self.updates}.", f"Give 1 to {MAX_TIMED:,}.")
        if self.out is not None:
            check_output(self.out, SPEED)  # before minutes of measuring
        result = {**SPEED_MARK, **measure(self.updates)}
        if self.out is not None:
            with output_file(self.out, SPEED) as temporary:
                temporary.write_text(json_text(result), encoding="utf-8")
        if self.json:
            print_json(result)
            return
        for table in speed_tables(result):
            show(table)


BenchCommand = (
    Annotated[BenchList, subcommand("list", prefix_name=False)]
    | Annotated[BenchRun, subcommand("run", prefix_name=False)]
    | Annotated[BenchStatus, subcommand("status", prefix_name=False)]
    | Annotated[BenchTable, subcommand("table", prefix_name=False)]
    | Annotated[BenchFigure, subcommand("figure", prefix_name=False)]
    | Annotated[BenchSpeed, subcommand("speed", prefix_name=False)]
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The paper's tables and figures by name, and the speed of this machine."""

    command: BenchCommand

    def run(self) -> None:
        self.command.run()
