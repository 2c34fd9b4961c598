"""What the page shows of a benchmark: every experiment that has results, as tables and curves."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from idaq.bench.cells import Cell, make_cells
from idaq.bench.curve import learning_curve
from idaq.bench.experiments import EXPERIMENTS, SCALES, Experiment, Row
from idaq.bench.probe import read_probe
from idaq.bench.status import Status, probe_file, status_of
from idaq.bench.tables import ResultTable, aggregates, make_table
from idaq.config import Json
from idaq.report import style
from idaq.report.payload import Unreadable
from idaq.runs.statistics import performance_profile

PROFILE_THRESHOLDS = np.linspace(0.0, 1.2, 49)


def is_bench(place: Path) -> bool:
    """Whether a directory holds the results of `idaq bench run`."""
    return (place / "cells").is_dir() and (place / "data").is_dir()


def bench_payload(results: Path, unreadable: Unreadable) -> list[Json]:
    """Every experiment at every scale at which a cell is done."""
    names = {
        f"{experiment.name}, scale {scale}": (experiment, scale)
        for experiment in EXPERIMENTS.values()
        for scale in SCALES
    }
    return unreadable.without(names, lambda name: _experiment(results, *names[name]))


def _experiment(results: Path, experiment: Experiment, scale: str) -> Json | None:
    cells = make_cells(experiment, scale)  # type: ignore[arg-type]
    states = [status_of(results, cell) for cell in cells]
    counts = [status.state for status in states]
    if "done" not in counts:
        return None
    return table_payload(make_table(experiment, results, cells)) | {
        "scale": scale,
        "preset": SCALES[scale].preset,
        "counts": {state: counts.count(state) for state in dict.fromkeys(counts)},
        "probes": _probes(experiment, cells, states),
        "curves": _curves(experiment, cells, states),
    }


def table_payload(table: ResultTable) -> Json:
    """A table, and the statistics over its sets."""
    return {
        "name": table.experiment.name,
        "title": table.experiment.title,
        "columns": [column.name for column in table.columns],
        "rows": [_row(table, row) for row in table.rows],
        "overall": _overall(table),
    }


def _row(table: ResultTable, row: Row) -> Json:
    entries = []
    for column in table.columns:
        entry = table.entry(row, column)
        entries.append(
            {
                "value": entry.mean,
                "interval": entry.interval,
                "paper": entry.paper.mean if entry.paper else None,
                "paperWidth": entry.paper.ci95 if entry.paper else None,
                "note": entry.note,
            }
        )
    return {"name": row.name, "entries": entries}


def _overall(table: ResultTable) -> Json | None:
    """Statistics over sets, and performance profiles."""
    sets, found = aggregates(table)
    if not found:
        return None
    methods = []
    for column in table.columns:
        if column.name not in found:
            continue
        each = found[column.name]
        values = [table.entry(row, column).values for row in sets]
        scores = np.stack([value for value in values if value is not None])
        profile = performance_profile(scores, PROFILE_THRESHOLDS)
        methods.append(
            {
                "name": column.name,
                "mean": each.mean,
                "paperMean": each.paper_mean,
                "iqm": each.interquartile_mean,
                "iqmInterval": each.interquartile_interval,
                "improvement": each.improvement,
                "improvementInterval": each.improvement_interval,
                "share": profile.share.round(4).tolist(),
                "low": profile.low.round(4).tolist(),
                "high": profile.high.round(4).tolist(),
            }
        )
    thresholds = PROFILE_THRESHOLDS.round(4).tolist()
    return {"sets": len(sets), "thresholds": thresholds, "methods": methods}


def _probes(experiment: Experiment, cells: Sequence[Cell], states: Sequence[Status]) -> list[Json]:
    """Reference episodes of training tasks, for the figures of the quantifications."""
    if not experiment.probes:
        return []
    found = []
    for cell, status in zip(cells, states, strict=True):
        if status.run is None or not probe_file(status.run).is_file():
            continue
        values = read_probe(status.run)
        names = [key.removeprefix("uncertainty ") for key in values if key.startswith("unc")]
        found.append(
            {
                "row": cell.row,
                "task": int(values["task"]),
                "returns": values["returns"].round(3).tolist(),
                "distance": values["distance"].round(4).tolist(),
                "dataReturns": values["data_returns"].round(3).tolist(),
                "uncertainty": {n: values[f"uncertainty {n}"].tolist() for n in names},
                "threshold": {n: float(values[f"threshold {n}"]) for n in names},
            }
        )
    return found


def _curves(experiment: Experiment, cells: Sequence[Cell], states: Sequence[Status]) -> list[Json]:
    """Test returns during training."""
    if not experiment.curve_points:
        return []
    found = []
    for cell, status in zip(cells, states, strict=True):
        curve = learning_curve(status.run) if status.run is not None else None
        if curve is None:
            continue
        looks = style.looks(list(curve.returns))
        methods = [
            {
                "name": name,
                "label": looks[name].label,
                "colour": looks[name].colour,
                "mean": means.mean(axis=1).round(4).tolist(),
                "band": curve.intervals(name).round(4).tolist(),
            }
            for name, means in curve.returns.items()
        ]
        found.append({"row": cell.row, "updates": curve.updates.tolist(), "methods": methods})
    return found
