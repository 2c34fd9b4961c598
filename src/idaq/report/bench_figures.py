"""The paper's figures, drawn from the cells of an experiment.

fig-quantification   uncertainty against return for episodes of one *meta-training* task, with the
                     density of the dataset's returns (red) and the reference threshold (green)
fig-distance         the same episodes by their distance to the task's data; filled ones are those
                     that a quantification accepts
fig-point            adaptation on the plane: the reference stage and the episodes after it
fig-learning-curve   test return against meta-training updates
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idaq.bench.cells import Cell
from idaq.bench.curve import learning_curve
from idaq.bench.experiments import Experiment
from idaq.bench.probe import read_probe
from idaq.bench.status import status_of
from idaq.errors import IdaqError
from idaq.report import style
from idaq.report.figures import draw_adaptation
from idaq.report.results import load_run
from idaq.report.trajectories import draw_didactic, draw_iterative
from idaq.runs.directory import RunDir
from idaq.runs.labels import HEADLINE
from idaq.runs.run import Run
from idaq.types import AnyArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTIFICATIONS = ("prediction-error", "prediction-variance", "return")
LOG_SCALE_RATIO = 30.0
DENSITY, THRESHOLD = "#C44E52", "#009E73"
Probe = dict[str, AnyArray]


def write_bench_figures(
    experiment: Experiment, results: Path, cells: Sequence[Cell], out: Path
) -> list[Path]:
    """Draw the experiment's figures of the cells that are done, and return their files."""
    if experiment.kind != "figure":
        raise IdaqError(
            f"'{experiment.name}' is a table.",
            f"Print it with `idaq bench table {experiment.name}`.",
        )
    statuses = [(cell, status_of(results, cell)) for cell in cells]
    runs = {cell.row: s.run for cell, s in statuses if s.state == "done" and s.run is not None}
    if not runs:
        raise IdaqError(
            f"No cell of '{experiment.name}' is done in '{results}'.",
            f"Run it with `idaq bench run {experiment.name}` and the same options.",
        )
    draw: dict[str, Callable[[dict[str, RunDir], Path], list[Path]]] = {
        "fig-quantification": _quantification,
        "fig-distance": _distance,
        "fig-point": _point,
        "fig-learning-curve": _learning_curve,
    }
    return draw[experiment.name](runs, out)


# --- Quantifications on a training task -----------------------------------------------------


def _quantification(runs: dict[str, RunDir], out: Path) -> list[Path]:
    def panel(axes: Axes, probe: Probe, name: str) -> None:
        uncertainty, threshold = probe[f"uncertainty {name}"], probe[f"threshold {name}"]
        _shade_density(axes, probe["data_returns"])
        if uncertainty.min() > 0 and uncertainty.max() / uncertainty.min() > LOG_SCALE_RATIO:
            axes.set_xscale("log")
        axes.axvline(float(threshold), color=THRESHOLD, linestyle=":", linewidth=1.6)
        _scatter(axes, uncertainty, probe["returns"], uncertainty <= threshold)

    return [_grid(runs, out / "fig-quantification.png", "uncertainty", panel)]


def _distance(runs: dict[str, RunDir], out: Path) -> list[Path]:
    def panel(axes: Axes, probe: Probe, name: str) -> None:
        accepted = probe[f"uncertainty {name}"] <= probe[f"threshold {name}"]
        _shade_density(axes, probe["data_returns"])
        if name == "return":  # the uncertainty is minus the return, so this is a return
            level = -float(probe["threshold return"])
            axes.axhline(level, color=THRESHOLD, linestyle=":", linewidth=1.6)
        _scatter(axes, probe["distance"], probe["returns"], accepted)

    return [_grid(runs, out / "fig-distance.png", "distance to the dataset", panel)]


def _grid(
    runs: dict[str, RunDir],
    path: Path,
    xlabel: str,
    draw_panel: Callable[[Axes, Probe, str], None],
) -> Path:
    """A row per environment, a column per quantification."""
    probes = {row: read_probe(run) for row, run in runs.items()}
    columns = len(QUANTIFICATIONS)
    with style.drawing(path, 2.6 * columns + 0.4, 2.1 * len(probes) + 0.7) as figure:
        grid = figure.subplots(len(probes), columns, squeeze=False, sharey="row")
        for axes_row, (row, probe) in zip(grid, probes.items(), strict=True):
            for axes, name in zip(axes_row, QUANTIFICATIONS, strict=True):
                draw_panel(axes, probe, name)
                axes.set_title(f"{row}: {name.replace('-', ' ')}")
                axes.locator_params(axis="y", nbins=5)
            axes_row[0].set_ylabel("return")
        for axes in grid[-1]:
            axes.set_xlabel(xlabel)
        figure.legend(**_legend(), loc="outside lower center", ncols=4)
    return path


def _shade_density(axes: Axes, returns: AnyArray) -> None:
    """Red shades where the dataset's returns are."""
    for value in returns:
        axes.axhline(float(value), color=DENSITY, alpha=min(0.5, 3.0 / len(returns)), linewidth=2.5)


def _scatter(axes: Axes, x: AnyArray, y: AnyArray, accepted: AnyArray) -> None:
    axes.scatter(x[~accepted], y[~accepted], 16, "white", edgecolors="#333333", zorder=3)
    axes.scatter(x[accepted], y[accepted], 22, style.SHAPES[HEADLINE].colour, zorder=4)


def _legend() -> style.Options:
    from matplotlib.lines import Line2D

    dot: style.Options = {"marker": "o", "linestyle": "", "markersize": 5}
    blue = style.SHAPES[HEADLINE].colour
    handles = [
        Line2D([], [], color=blue, label="accepted", **dot),
        Line2D([], [], label="rejected", color="white", markeredgecolor="#333333", **dot),
        Line2D([], [], color=THRESHOLD, linestyle=":", label="reference threshold"),
        Line2D([], [], color=DENSITY, alpha=0.5, linewidth=4, label="returns in the dataset"),
    ]
    return {"handles": handles}


# --- Point-Robot ----------------------------------------------------------------------------


def _point(runs: dict[str, RunDir], out: Path) -> list[Path]:
    files = []
    for run in runs.values():
        opened = Run.open(run)
        results, dataset = load_run(opened), opened.find_data()
        drawn = {
            "didactic": draw_didactic(dataset, results, out / "fig-point-didactic.png"),
            "iterative": draw_iterative(dataset, results, out / "fig-point-iterative.png"),
            "adaptation": draw_adaptation(results, out / "fig-point-adaptation.png"),
        }
        files += [out / f"fig-point-{name}.png" for name, is_drawn in drawn.items() if is_drawn]
    return files


def _learning_curve(runs: dict[str, RunDir], out: Path) -> list[Path]:
    files = []
    for row, run in runs.items():
        curve = learning_curve(run)
        assert curve is not None, "the cell is done"
        looks = style.looks(list(curve.returns))
        path = out / f"fig-learning-curve-{row}.png"
        with style.drawing(path, 5.2, 3.6) as figure:
            axes = figure.subplots()
            for name, means in curve.returns.items():
                look = looks[name]
                axes.plot(
                    curve.updates,
                    means.mean(axis=1),
                    color=look.colour,
                    marker=look.marker,
                    markersize=look.size,
                    label=look.label,
                )
                if means.shape[1] > 1:
                    low, high = np.transpose(curve.intervals(name))
                    axes.fill_between(
                        curve.updates, low, high, color=look.colour, alpha=0.18, linewidth=0
                    )
            axes.set_xlabel("meta-training updates")
            axes.set_ylabel("test return")
            axes.grid(visible=True, axis="y")
            seeds = next(iter(curve.returns.values())).shape[1]
            axes.set_title(f"{row}: {seeds} seed{'s' * (seeds > 1)}")
            figure.legend(loc="outside lower center", ncols=2)
        files.append(path)
    return files
