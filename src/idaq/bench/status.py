"""What has been done of a cell: read off the disk, without loading anything large."""

import fcntl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from idaq.adapt.methods import make_adapter
from idaq.algos.entries import make_algorithm
from idaq.bench.cells import (
    Adaptation,
    Cell,
    data_lock,
    description_place,
    error_place,
    run_place,
)
from idaq.config import to_dict
from idaq.envs import get_family
from idaq.runs.directory import LOCK_FILE, RunDir, read_json
from idaq.settings import RunConfig

State = Literal["done", "running", "failed", "started", "to do", "unavailable"]


@dataclass(frozen=True)
class Status:
    """Where a cell stands. `parts` of `of` are there: data, agents, results per seed."""

    state: State
    note: str = ""
    parts: int = 0
    of: int = 1
    run: RunDir | None = None


def status_of(results: Path, cell: Cell) -> Status:
    """Where a cell stands."""
    reason = cell.unavailable()
    if reason is not None:
        return Status("unavailable", reason)
    run = run_place(results, cell)
    parts, of = _parts(results, cell, run)
    if parts == of:
        return Status("done", "", parts, of, run)
    held = [data_lock(results, cell)] + ([run.path / LOCK_FILE] if run else [])
    if any(map(_is_held, held)):
        return Status("running", "", parts, of, run)
    error = error_place(results, cell)
    if error.is_file():
        return Status("failed", str(read_json(error).get("error", "")), parts, of, run)
    return Status("started" if parts else "to do", "", parts, of, run)


def _parts(results: Path, cell: Cell, run: RunDir | None) -> tuple[int, int]:
    """Data, then per seed an agent and every result; an agent may go once its results are there."""
    seeds = range(cell.seeds)
    of = 1 + cell.trains * cell.seeds * (1 + len(cell.adaptations))
    of += cell.probes + bool(cell.curve_points)
    if run is None or not cell.trains:
        return int(description_place(results, cell).is_file()), of
    names = [a.name for a in cell.adaptations if is_current(run, cell.config(), a)]
    parts = 1
    for seed in seeds:
        num = sum(run.result_file(name, seed).is_file() for name in names)
        parts += num + (num == len(cell.adaptations) > 0 or run.agent_file(seed).is_file())
    if cell.probes:
        parts += probe_file(run).is_file()
    if cell.curve_points:
        parts += curve_file(run).is_file()
    return parts, of


def is_current(run: RunDir, config: RunConfig, adaptation: Adaptation) -> bool:
    """Whether the results under that name are those of this configuration and version."""
    file = run.adapt(adaptation.name) / "config.json"
    if not file.is_file():
        return False
    return bool(read_json(file) == adaptation_identity(run, config, adaptation))


def adaptation_identity(run: RunDir, config: RunConfig, adaptation: Adaptation) -> dict[str, Any]:
    """What `adapt/NAME/config.json` must say."""
    family = get_family(run.manifest()["identity"]["family"])
    settings = adaptation.config(config)
    algorithm = make_algorithm(config.algorithm, family.spec)
    version = make_adapter(adaptation.method, settings, algorithm).version
    return {"method": adaptation.method, "version": version, "config": to_dict(settings)}


def probe_file(run: RunDir) -> Path:
    """Reference episodes of a training task against its data."""
    return run.path / "probe.npz"


def curve_file(run: RunDir) -> Path:
    """Test returns during training."""
    return run.path / "curve.npz"


def _is_held(lock_file: Path) -> bool:
    """Whether a living process holds a lock; a lock file alone means nothing."""
    try:
        with lock_file.open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
