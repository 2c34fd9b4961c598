"""Cells: the independent pieces of an experiment, and where their results live.

A cell is a set of agents (family, data quality, algorithm, preset and settings, seeds) and the
adaptations that are run with them. Its directory is a run directory whose name holds a hash of the
run's identity: the resolved configuration, the declared versions of the code (of the family and
the algorithm; an adaptation keeps its own), and the hash of the data. What is already there is not
done again; a different configuration, version or dataset gets a different directory.

RESULTS/data/FAMILY-QUALITY-HASH/     datasets, shared by the cells that are trained on them
RESULTS/data/FAMILY-QUALITY-HASH.json their hash, returns and successes
RESULTS/cells/FAMILY-ALGORITHM-HASH/  run directories; -curve if agents are kept during training
RESULTS/errors/HASH.json              why a cell failed; removed once it succeeds
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from idaq.adapt.methods import judge_needed
from idaq.behaviour.quality import shipped_fingerprint
from idaq.bench import available
from idaq.bench.choices import ScaleName
from idaq.bench.experiments import Column, Experiment, Row, Scale, get_scale
from idaq.config import override
from idaq.envs import get_family
from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.runs.recipe import Recipe
from idaq.runs.resolve import judge_kind, resolve, without_judge
from idaq.runs.train_stage import MAX_SEEDS
from idaq.settings import AdaptConfig, Quality, RunConfig, Split
from idaq.storage.checked import is_text, read_object

SPLIT: Split = "test"


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """A method and its settings, name=value, on top of those of the run."""

    method: str
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its results in the run directory."""
        return ".".join([self.method, *(each.replace("=", "-") for each in self.settings)])

    def config(self, run: RunConfig) -> AdaptConfig:
        config = run.adapt
        for setting in self.settings:
            config = override(config, setting)
        return config


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Agents and what is run with them; without adaptations and probes, only a dataset."""

    row: str
    family: str
    quality: Quality
    algorithm: str
    preset: str
    settings: tuple[str, ...]  # of the scale
    variant: tuple[str, ...]  # settings of the column
    trajectories: int
    seeds: int
    adaptations: tuple[Adaptation, ...]
    probes: bool = False
    curve_points: int = 0

    @property
    def label(self) -> str:
        """What the cell is called for people, and what `--only` is matched with."""
        if not self.trains:
            return f"{self.row}/data"
        variant = [each.removeprefix("algorithm.") for each in self.variant]
        return "/".join([self.row, self.algorithm, *variant])

    @property
    def trains(self) -> bool:
        return bool(self.adaptations) or self.probes

    @property
    def key(self) -> str:
        """A hash that does not need the data, by which the cell's error is saved."""
        return _hash([str(self)])[:16]

    def config(self) -> RunConfig:
        """The resolved configuration, without its judge if nothing needs one."""
        config = resolve(self.preset, self.family, self.algorithm)
        for setting in (*self.settings, *self.variant):
            config = override(config, setting)
        needed = [judge_needed(each.method) for each in self.adaptations]
        if self.probes or judge_kind(config) in needed:
            return config
        return without_judge(config)

    def recipe(self, data_hash: str) -> Recipe:
        """The recipe of the cell's run, on data with that hash."""
        return Recipe(
            family=get_family(self.family),
            preset=self.preset,
            config=self.config(),
            data={"sha256": data_hash},
            split=SPLIT,
        )

    def curve_updates(self, config: RunConfig) -> int:
        """Updates between two points of the learning curve; 0 where there is none."""
        if not self.curve_points:
            return 0
        train = config.train
        chunks = max(1, train.num_updates // (self.curve_points * train.log_every_updates))
        return chunks * train.log_every_updates

    def unavailable(self) -> str | None:
        """Why this version of idaq cannot run the cell, if it cannot."""
        methods = tuple(each.method for each in self.adaptations)
        algorithm = self.algorithm if self.trains else None
        return available.missing(self.family, self.quality, algorithm, methods)


def make_cells(
    experiment: Experiment,
    scale: ScaleName,
    *,
    seeds: int | None = None,
    preset: str | None = None,
    only: str | None = None,
) -> list[Cell]:
    """The cells of an experiment at a scale, including those that cannot be run."""
    if seeds is not None and not 1 <= seeds <= MAX_SEEDS:
        raise IdaqError(f"`seeds` is {seeds}.", f"Give at least 1 and at most {MAX_SEEDS:,}.")
    sizes = get_scale(scale)
    sizes = replace(sizes, seeds=seeds or sizes.seeds, preset=preset or sizes.preset)
    rows = [r for r in experiment.rows if r.name in experiment.smoke or not sizes.only_smoke_rows]
    cells = [cell for each in rows for cell in _cells_of_row(experiment, each, sizes)]
    if only is None:
        return cells
    found = [cell for cell in cells if _matches(cell.label, only)]
    if not found:
        labels = ", ".join(cell.label for cell in cells[:6])
        raise IdaqError(f"`only` '{only}' matches no cell.", f"Cells are, for example: {labels}.")
    return found


def _matches(label: str, pattern: str) -> bool:
    return fnmatchcase(label, pattern) or pattern in label


def _cells_of_row(experiment: Experiment, row: Row, scale: Scale) -> list[Cell]:
    """Columns that need the same agents share a cell."""
    by_agents: dict[tuple[str, tuple[str, ...]], list[Column]] = {}
    for column in experiment.columns:
        by_agents.setdefault((column.algorithm, column.run), []).append(column)
    return [
        Cell(
            row=row.name,
            family=row.family,
            quality=row.quality,
            algorithm=algorithm,
            preset=scale.preset,
            settings=scale.settings(algorithm),
            variant=run,
            trajectories=scale.trajectories,
            seeds=scale.seeds,
            adaptations=tuple(
                Adaptation(method=c.method, settings=c.adapt) for c in columns if c.method
            ),
            probes=experiment.probes,
            curve_points=experiment.curve_points,
        )
        for (algorithm, run), columns in by_agents.items()
    ]


def cell_of(cells: Iterable[Cell], row: Row, column: Column) -> Cell | None:
    """The cell that an entry of the table comes from."""
    adaptation = Adaptation(method=column.method, settings=column.adapt) if column.method else None
    for cell in cells:
        has = adaptation in cell.adaptations if adaptation else not cell.trains
        same_agents = (cell.algorithm, cell.variant) == (column.algorithm, column.run)
        if cell.row == row.name and same_agents and has:
            return cell
    return None


# --- Places ---------------------------------------------------------------------------------


def data_place(results: Path, cell: Cell) -> Path:
    """The dataset of a cell, named after what it is made from."""
    family = get_family(cell.family)
    policies = shipped_fingerprint(family, cell.quality)
    recipe = [cell.family, family.version, cell.quality, policies, cell.trajectories]
    name = f"{cell.family.replace('/', '-')}-{cell.quality}-{_hash(recipe)[:12]}"
    return results / "data" / name


def run_place(results: Path, cell: Cell) -> RunDir | None:
    """The run directory of a cell, if its data is known."""
    recipe = known_recipe(results, cell)
    return None if recipe is None else run_of(results, cell, recipe)


def known_recipe(results: Path, cell: Cell) -> Recipe | None:
    """The recipe of a cell's run, if its data is known."""
    file = description_place(results, cell)
    return cell.recipe(read_object(file, sha256=is_text)["sha256"]) if file.is_file() else None


def run_of(results: Path, cell: Cell, recipe: Recipe) -> RunDir:
    """The run directory of a cell with that recipe."""
    identity = _hash(recipe.identity.to_json())[:16]
    name = f"{cell.family.replace('/', '-')}-{cell.algorithm}-{identity}"
    return RunDir(results / "cells" / (name + "-curve" * bool(cell.curve_points)))


def error_place(results: Path, cell: Cell) -> Path:
    return results / "errors" / f"{cell.key}.json"


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def description_place(results: Path, cell: Cell) -> Path:
    """Hash, returns and successes of a cell's data; the file stays when the data is removed."""
    data = data_place(results, cell)
    return data.with_name(f"{data.name}.json")


def data_lock(results: Path, cell: Cell) -> Path:
    """The lock to hold while collecting the cell's data."""
    data = data_place(results, cell)
    return data.with_name(f".{data.name}.lock")
