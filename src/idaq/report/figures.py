"""The figures of a run, drawn from its saved results alone.

RUN/figures/didactic.png      offline data against the episodes of adaptation, on the plane
RUN/figures/iterative.png     the episodes after the reference stage, one by one
RUN/figures/uncertainty.png   uncertainty against return, and what the threshold keeps
RUN/figures/adaptation.png    return per adaptation episode, beside the paper's final returns
RUN/figures/anytime.png       the final return, had the budget ended after 1, 2, ... episodes

The first two need a two-dimensional observation. A method without results is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idaq.bench.paper import Published
from idaq.bench.published import published
from idaq.report import style
from idaq.report.results import MethodResults, RunResults, load_run
from idaq.report.trajectories import draw_didactic, draw_iterative
from idaq.runs.run import Run, RunPlace
from idaq.runs.statistics import bootstrap_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MAX_COLUMNS = 3  # of panels in `uncertainty.png`
MAX_LABEL_OF_THREE = 28  # characters: longer labels get a legend of two columns
ROWS_OF_LEGEND = 3  # that a figure has room for; it grows with more
LOG_SCALE_RATIO = 30.0  # of the largest uncertainty to the smallest; beyond it, a log scale


def write_figures(run: RunPlace) -> list[Path]:
    """Draw every figure that the run has results for, and return their files."""
    run = Run.open(run)
    results = load_run(run)
    figures: dict[str, Callable[[RunResults, Path], bool]] = {}
    if results.is_on_a_plane:
        dataset = run.find_data()
        figures["didactic"] = partial(draw_didactic, dataset)
        figures["iterative"] = partial(draw_iterative, dataset)
    figures["uncertainty"] = draw_uncertainty
    figures["adaptation"] = draw_adaptation
    figures["anytime"] = draw_anytime
    files = {name: run.directory.figures / f"{name}.png" for name in figures}
    return [files[name] for name, draw in figures.items() if draw(results, files[name])]


def draw_uncertainty(results: RunResults, path: Path) -> bool:
    """Write `uncertainty.png`; false if no method quantifies uncertainty.

    Thresholds differ between tasks, so one task's episodes are drawn in full colour with its
    threshold, and those of the first seed's other tasks pale behind them. The threshold is that
    of the reference stage: nothing to its right is ever kept. The final episode is not judged.
    """
    methods = [method for method in results.methods.values() if method.has_uncertainty]
    if not methods:
        return False
    columns = min(MAX_COLUMNS, len(methods))
    rows = -(-len(methods) // columns)
    looks = style.looks(list(results.methods), results.algo, results.configs)
    with style.drawing(path, max(4.5, 0.6 + 2.75 * columns), 0.9 + 2.5 * rows) as figure:
        figure.suptitle(results.example_title, fontsize=10)
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for axes in grid.flat[len(methods) :]:
            axes.set_axis_off()
        for axes, method in zip(grid.flat, methods, strict=False):
            axes.set_title(looks[method.name].label)
            what = " (minus return)" if method.judges_by_return else ""
            axes.set_xlabel(f"uncertainty{what}")
            axes.grid(visible=True)
            _scatter_uncertainty(axes, method, results.example)
        for axes in grid[:, 0]:
            axes.set_ylabel("return")
        figure.legend(**_uncertainty_legend(), loc="outside lower center", ncols=4)
    return True


def _scatter_uncertainty(axes: Axes, method: MethodResults, task: int) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    judged = np.s_[:, :-1]
    uncertainty, returns, kept = (
        method.first[name][judged] for name in ("uncertainty", "returns", "kept")
    )  # each [tasks, episodes - 1]
    if uncertainty.min() > 0.0 and uncertainty.max() / uncertainty.min() > LOG_SCALE_RATIO:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    others = np.arange(len(kept)) != task
    for chosen, colour in (~kept, style.REJECTED), (kept, style.KEPT):
        behind = chosen & others[:, None]
        axes.scatter(
            uncertainty[behind], returns[behind], 7, style.pale(colour), linewidths=0, zorder=2
        )
    axes.axvline(method.reference_threshold(task), color=style.FINAL, linestyle="--", linewidth=1)
    for chosen, fill, edge in (
        (~kept[task], "white", style.REJECTED),
        (kept[task], style.KEPT, "white"),
    ):
        axes.scatter(
            uncertainty[task, chosen], returns[task, chosen], 30, fill, edgecolors=edge, zorder=3
        )


def _uncertainty_legend() -> style.Options:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    def dot(size: float, fill: str, edge: str) -> Line2D:
        shape: style.Options = {"marker": "o", "linestyle": "", "markersize": size}
        return Line2D([], [], markerfacecolor=fill, markeredgecolor=edge, **shape)

    kept, rejected = style.pale(style.KEPT), style.pale(style.REJECTED)
    entries = {
        "kept": dot(6.0, style.KEPT, "white"),
        "rejected": dot(5.0, "white", style.REJECTED),
        "threshold": Line2D([], [], color=style.FINAL, linestyle="--", linewidth=1.0),
        "the other tasks": (dot(3.0, kept, kept), dot(3.0, rejected, rejected)),
    }
    return {
        "handles": list(entries.values()),
        "labels": list(entries),
        "handler_map": {tuple: HandlerTuple(ndivide=None)},
    }


def draw_adaptation(results: RunResults, path: Path) -> bool:
    """Write `adaptation.png`: means over tasks and seeds, and intervals over seeds."""
    methods = list(results.methods.values())
    looks = style.looks(list(results.methods), results.algo, results.configs)
    known = paper_returns(results)
    with style.drawing(path, 7.6, 4.1) as figure:
        figure.suptitle(_adaptation_title(results), fontsize=10)
        widths = [1.0, 0.15] if known else [1.0]
        panels = figure.subplots(1, len(widths), squeeze=False, sharey=True, width_ratios=widths)[0]
        handles = _draw_methods(panels[0], methods, looks)
        handles += _finish_episodes(panels[0], methods, "adaptation episode", "return")
        if known:
            _draw_papers(panels[1], known, looks)
        _draw_legend(figure, handles)
    return True


def draw_anytime(results: RunResults, path: Path) -> bool:
    """Write `anytime.png`; false if no method with several episodes has such results.

    A method of one episode, which is expert context, is a horizontal line.
    """
    curves = [(method, method.anytime_means()) for method in results.methods.values()]
    known = [(method, means) for method, means in curves if means is not None]
    several = [method for method, _ in known if method.num_episodes > 1]
    if not several:
        return False
    looks = style.looks(list(results.methods), results.algo, results.configs)
    with style.drawing(path, 7.6, 4.1) as figure:
        figure.suptitle(_adaptation_title(results), fontsize=10)
        axes, handles = figure.subplots(), []
        for depth, (method, means) in enumerate(known):
            if method.num_episodes > 1:
                handles.append(_draw_curve(axes, 1, means, looks[method.name]))
                handles[-1].set_zorder(3 - 0.01 * depth)  # the first on top
            else:
                handles.append(_draw_level(axes, means[:, 0], looks[method.name]))
        budget = "budget: episodes, of which the last one is scored"
        handles += _finish_episodes(axes, several, budget, "return of the scored episode")
        _draw_legend(figure, handles)
    return True


def _draw_legend(figure: Figure, handles: list[Line2D]) -> None:
    """Below the panels, each label once; in two columns where labels are long."""
    once = list({str(each.get_label()): each for each in handles}.values())
    longest = max(len(str(each.get_label())) for each in once)
    columns = 3 if longest <= MAX_LABEL_OF_THREE else 2
    further_rows = max(0, -(-len(once) // columns) - ROWS_OF_LEGEND)
    figure.set_figheight(figure.get_figheight() + 0.18 * further_rows)
    figure.legend(handles=once, loc="outside lower center", ncols=columns, handlelength=2.8)


def _finish_episodes(
    axes: Axes, methods: list[MethodResults], xlabel: str, ylabel: str
) -> list[Line2D]:
    """Axes over episodes; returns the lines that mark the end of the reference stage."""
    from matplotlib.ticker import MaxNLocator

    lines = []
    for end in sorted({m.num_reference_episodes for m in methods if m.num_episodes > 1}):
        line = axes.axvline(end + 0.5, color=style.GUIDE, linestyle=":", linewidth=1.2)
        line.set_label("reference stage ends")
        lines.append(line)
    axes.set_xlim(0.5, max(method.num_episodes for method in methods) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(visible=True, axis="y")
    return lines


def paper_returns(results: RunResults) -> dict[str, Published]:
    """The paper's final returns for the same algorithm and data quality, by method."""
    numbers = {
        name: published(results.family, name, results.algo, results.quality)
        for name in results.methods
    }
    return {name: number for name, number in numbers.items() if number is not None}


def _adaptation_title(results: RunResults) -> str:
    if len(results.seeds) == 1:
        return f"{results.subject}: mean over tasks, one seed"
    return f"{results.subject}: mean over tasks and {len(results.seeds)} seeds, 95% interval"


def _draw_methods(
    axes: Axes, methods: list[MethodResults], looks: dict[str, style.Look]
) -> list[Line2D]:
    """Every method's returns; if all ran the same reference stage, it is drawn once."""
    curves = [method for method in methods if method.num_episodes > 1]
    start = num_shared_episodes(curves)
    handles = []
    if start:
        means = curves[0].seed_means()[:, :start]
        handles.append(_draw_curve(axes, 1, means, style.SHARED))
    for depth, method in enumerate(curves):
        means = method.seed_means()[:, start:]
        handles.append(_draw_curve(axes, start + 1, means, looks[method.name]))
        handles[-1].set_zorder(3 - 0.01 * depth)  # the first on top
    for method in methods:
        if method.num_episodes == 1:
            handles.append(_draw_level(axes, method.seed_means()[:, 0], looks[method.name]))
    return handles


def num_shared_episodes(methods: list[MethodResults]) -> int:
    """The length of the reference stage if all methods, two or more, ran the same one; else 0."""
    if len(methods) < 2:
        return 0
    length = methods[0].num_reference_episodes
    stages = [method.seed_means()[:, :length] for method in methods]
    lengths = {method.num_reference_episodes for method in methods}
    same = len(lengths) == 1 and all(np.array_equal(stage, stages[0]) for stage in stages)
    return length if same else 0


def _draw_curve(axes: Axes, first: int, means: NDArray[np.float64], look: style.Look) -> Line2D:
    """A curve over episodes, counted from `first`, and its interval; `means` is [seeds, n]."""
    episodes = np.arange(first, first + means.shape[1])
    if len(means) > 1:
        low, high = np.transpose([bootstrap_interval(column) for column in means.T])
        axes.fill_between(episodes, low, high, color=look.colour, alpha=0.18, linewidth=0)
    shape = _line_shape(look)
    return axes.plot(episodes, means.mean(axis=0), label=look.label, **shape)[0]


def _draw_level(axes: Axes, means: NDArray[np.float64], look: style.Look) -> Line2D:
    """A horizontal line and its interval; `means` is [seeds]."""
    from matplotlib.lines import Line2D

    if len(means) > 1:
        axes.axhspan(*bootstrap_interval(means), color=look.colour, alpha=0.15, linewidth=0)
    axes.axhline(means.mean(), color=look.colour, linestyle="--", linewidth=1.3)
    return Line2D([], [], linestyle="--", label=look.label, **_line_shape(look))


def _line_shape(look: style.Look) -> style.Options:
    return {
        "color": look.colour,
        "marker": look.marker,
        "markersize": look.size,
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
        "linewidth": 1.4,
    }


def _draw_papers(axes: Axes, papers: dict[str, Published], looks: dict[str, style.Look]) -> None:
    """A narrow strip of the paper's final returns, side by side."""
    for place, (name, paper) in enumerate(papers.items()):
        axes.errorbar(place, paper.mean, yerr=paper.ci95, **_line_shape(looks[name]))
    axes.set_xlim(-1.0, len(papers))
    axes.set_xticks([])
    axes.set_xlabel("paper's\nfinal")
    axes.grid(visible=True, axis="y")
    axes.tick_params(left=False, labelleft=False)
    axes.spines["left"].set_visible(False)
