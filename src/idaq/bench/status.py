"""How much of a cell is done, read from the disk without loading anything large."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from idaq.adapt.methods import make_adapter
from idaq.bench.cells import (
    Adaptation,
    Cell,
    data_lock,
    description_place,
    error_place,
    known_recipe,
    run_of,
)
from idaq.errors import IdaqError, printable
from idaq.runs.adapt_stage import adaptation_identity
from idaq.runs.directory import RunDir
from idaq.runs.recipe import Recipe
from idaq.runs.run import Run
from idaq.storage.checked import is_text, or_none, read_json, read_object
from idaq.storage.lock import is_locked

State = Literal["done", "running", "failed", "started", "to do", "unavailable"]


@dataclass(frozen=True)
class Status:
    """Where a cell stands. `parts` out of `of` exist: data, agents, results per seed."""

    state: State
    note: str = ""
    parts: int = 0
    of: int = 1
    run: RunDir | None = None


def status_of(results: Path, cell: Cell) -> Status:
    """Where a cell stands; one whose files cannot be read has failed."""
    reason = cell.unavailable()
    if reason is not None:
        return Status("unavailable", reason)
    try:
        return _status_of(results, cell)
    except IdaqError as error:
        return Status("failed", str(error))


def _status_of(results: Path, cell: Cell) -> Status:
    recipe = known_recipe(results, cell)
    run = None if recipe is None else run_of(results, cell, recipe)
    parts, of = _parts(results, cell, run, recipe)
    if parts == of:
        return Status("done", "", parts, of, run)
    held = [data_lock(results, cell)] + ([run.lock_file] if run else [])
    if any(map(is_locked, held)):
        return Status("running", "", parts, of, run)
    error = error_place(results, cell)
    if error.is_file():
        note = printable(read_object(error, error=or_none(is_text)).get("error") or "")
        return Status("failed", note, parts, of, run)
    return Status("started" if parts else "to do", "", parts, of, run)


def _parts(results: Path, cell: Cell, run: RunDir | None, recipe: Recipe | None) -> tuple[int, int]:
    """(done, in all): data, probe and curve, and per seed an agent and every result.

    An agent whose results are all there may have been removed.
    """
    seeds = range(cell.seeds)
    of = 1 + cell.trains * cell.seeds * (1 + len(cell.adaptations))
    of += cell.probes + bool(cell.curve_points)
    if run is None or recipe is None or not cell.trains:
        return int(description_place(results, cell).is_file()), of
    names = [a.name for a in cell.adaptations if is_current(run, recipe, a)]
    parts = 1
    for seed in seeds:
        num = sum(run.result_file(name, seed).is_file() for name in names)
        parts += num + (num == len(cell.adaptations) > 0 or run.agent_file(seed).is_file())
    if cell.probes:
        parts += probe_file(run).is_file()
    if cell.curve_points:
        parts += curve_file(run).is_file()
    return parts, of


def is_current(run: RunDir, made: Recipe | Run, adaptation: Adaptation) -> bool:
    """Whether an adaptation's results are of today's configuration and version."""
    file = run.adapt_config_file(adaptation.name)
    if not file.is_file():
        return False
    settings = adaptation.config(made.config)
    adapter = make_adapter(adaptation.method, settings, made.algorithm)
    return bool(read_json(file) == adaptation_identity(adaptation.method, settings, adapter))


def probe_file(run: RunDir) -> Path:
    """Reference episodes of a training task against its data."""
    return run.path / "probe.npz"


def curve_file(run: RunDir) -> Path:
    """Test returns during training."""
    return run.path / "curve.npz"
