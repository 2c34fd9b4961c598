"""What adaptation looks like on the plane (Appendix D), for families whose observation is 2-D.

`didactic.png` shows the offline data of one test task and the episodes that adaptation tried on
it; `iterative.png` shows the episodes after the reference stage one by one. Both show the first
seed's most typical task (`RunResults.example`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idaq.report import style
from idaq.report.results import MethodResults, RunResults
from idaq.storage.dataset import Dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# the paper's figures, to which methods from outside are added
DIDACTIC_METHODS = ("idaq-return", "idaq-prediction-variance")
ITERATIVE_METHODS = ("idaq-return", "posterior", "idaq-prediction-variance")
MAX_COLUMNS = 10  # of iterative episodes; if there are more, evenly spaced ones are shown
MARGIN = 0.1  # of empty space on either axis, as a share of what is drawn
FLATTEST = 0.55  # the smallest ratio of a window's sides

Points = NDArray[np.floating]


@dataclass(frozen=True)
class Scene:
    """What lies on the plane for every method; empty if the dataset is gone."""

    data: list[Points]  # the task's offline trajectories, each [steps + 1, 2]
    goals: Points  # of all tasks, [num_tasks, 2] or [0, 2]
    goal: Points | None  # of the task, [2]


def make_scene(dataset: Dataset | None, task: int) -> Scene:
    """The task's offline trajectories, its goal, and the goals of all tasks."""
    if dataset is None:
        return Scene([], np.zeros((0, 2)), None)
    goals = _goals(dataset)
    episodes = [dataset.episode(int(index)) for index in dataset.task_episodes(task)]
    data = [np.concatenate([e["observations"][:1], e["next_observations"]]) for e in episodes]
    return Scene(data, goals, goals[task] if len(goals) else None)


def _goals(dataset: Dataset) -> Points:
    """The tasks' parameters if they are points of the plane, else none."""
    try:
        goals = np.asarray(dataset.metadata.get("task_params"), np.float64)
    except (TypeError, ValueError):
        return np.zeros((0, 2))
    return goals if goals.shape == (dataset.num_tasks, 2) else np.zeros((0, 2))


def episode_path(method: MethodResults, task: int, episode: int) -> Points:
    """Where an episode of the first seed went, [steps + 1, 2]."""
    steps = int(method.first["valid"][task, episode].sum())
    path: Points = method.first["observations"][task, episode, : steps + 1]
    return path


def draw_didactic(dataset: Dataset | None, results: RunResults, path: Path) -> bool:
    """Write `didactic.png`; false if none of its methods has results."""
    methods = results.drawn(DIDACTIC_METHODS)
    if not methods:
        return False
    task = results.example
    scene = make_scene(dataset, int(methods[0].first["tasks"][task]))
    window = _window([*_judged_paths(methods, task), *scene.data, scene.goals])
    looks = style.looks([method.name for method in methods], results.algo, results.configs)
    with style.drawing(path, 0.7 + 3.7 * len(methods), 1.2 + 3.3 * window.ratio) as figure:
        panels = list(figure.subplots(1, len(methods), squeeze=False)[0])
        for axes, method in zip(panels, methods, strict=True):
            axes.set_title(looks[method.name].label)
            for trajectory in scene.data:
                axes.plot(*trajectory.T, color=style.OFFLINE_DATA, linewidth=0.6, zorder=1)
            _draw_goals(axes, scene, star_size=15, dot_size=2.0)
            if method.judges_by_return:
                _draw_selection(axes, method, task)
            else:
                _draw_uncertainty(figure, axes, method, task)
            axes.locator_params(nbins=4)
            window.apply(axes)
        figure.suptitle(results.example_title, fontsize=10)
        columns = 5 if len(panels) > 1 else 3
        figure.legend(handles=_didactic_legend(scene), loc="outside lower center", ncols=columns)
    return True


def _judged_paths(methods: list[MethodResults], task: int) -> list[Points]:
    return [
        episode_path(method, task, episode)
        for method in methods
        for episode in range(method.num_episodes - 1)
    ]


def _draw_selection(axes: Axes, method: MethodResults, task: int) -> None:
    """Every judged episode, those that were kept on top."""
    for episode in range(method.num_episodes - 1):
        kept = bool(method.first["kept"][task, episode])
        path = episode_path(method, task, episode)
        _draw_path(axes, path, style.KEPT if kept else style.REJECTED, kept)


def _draw_uncertainty(figure: Figure, axes: Axes, method: MethodResults, task: int) -> None:
    """The reference episodes by uncertainty: 0 is the lowest of them and 1 the highest."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    colours = _uncertainty_colours()
    values = method.first["uncertainty"][task, : method.num_reference_episodes]
    spread = float(values.max() - values.min()) or 1.0
    for episode, value in enumerate((values - values.min()) / spread):
        kept = bool(method.first["kept"][task, episode])
        path = episode_path(method, task, episode)
        if kept:
            axes.plot(*path.T, color=style.KEPT, linewidth=5.0, zorder=4.5)
        _draw_path(axes, path, colours(float(value)), kept)
    scale = ScalarMappable(Normalize(0.0, 1.0), colours)
    bar = figure.colorbar(scale, ax=axes, shrink=0.75, pad=0.04, aspect=20, ticks=[0, 0.5, 1])
    bar.set_label("normalised uncertainty")
    bar.outline.set_visible(False)


def _uncertainty_colours() -> Colormap:
    import matplotlib
    from matplotlib.colors import ListedColormap

    whole = matplotlib.colormaps["viridis"]
    return ListedColormap(whole(np.linspace(0.0, 0.92, 256)))  # without the palest yellow


def _didactic_legend(scene: Scene) -> list[Line2D]:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style.KEPT, linewidth=2.2, label="kept episode"),
        Line2D([], [], color=style.REJECTED, linewidth=1.2, label="rejected episode"),
    ]
    if scene.data:
        data = Line2D([], [], color=style.OFFLINE_DATA, linewidth=1.5, label="offline data")
        handles.insert(0, data)
    return handles + _goal_legend(scene)


def draw_iterative(dataset: Dataset | None, results: RunResults, path: Path) -> bool:
    """Write `iterative.png`; false if none of its methods has results."""
    methods = results.drawn(ITERATIVE_METHODS)
    if not methods:
        return False
    task = results.example
    scene = make_scene(dataset, int(methods[0].first["tasks"][task]))
    shown = [_iterative_episodes(method) for method in methods]
    columns = max(len(episodes) for episodes in shown)
    paths = [
        episode_path(method, task, episode)
        for method, episodes in zip(methods, shown, strict=True)
        for episode in episodes
    ]
    window = _window([*paths, scene.goals])
    height = 0.7 + len(methods) * (0.6 + 0.85 * window.ratio)
    looks = style.looks([method.name for method in methods], results.algo, results.configs)
    with style.drawing(path, max(7.0, 0.95 * columns), height) as figure:
        title = f"{results.example_title}: each episode's return above, its number below"
        figure.suptitle(title, fontsize=10)
        rows = figure.subfigures(len(methods), 1, squeeze=False)[:, 0]
        for row, method, episodes in zip(rows, methods, shown, strict=True):
            row.suptitle(looks[method.name].label, x=0.008, ha="left", fontsize=9.5)
            panels = list(row.subplots(1, columns, squeeze=False)[0])
            for axes in panels[len(episodes) :]:
                axes.set_axis_off()
            for axes, episode in zip(panels, episodes, strict=False):
                _draw_goals(axes, scene, star_size=9, dot_size=0.5)
                _draw_iterative_episode(axes, method, task, episode)
                window.apply(axes)
        figure.legend(handles=_iterative_legend(scene), loc="outside lower center", ncols=5)
    return True


def _iterative_episodes(method: MethodResults) -> list[int]:
    first, last = method.num_reference_episodes, method.num_episodes - 1
    columns = min(MAX_COLUMNS, last - first + 1)
    return [int(episode) for episode in np.linspace(first, last, columns).round()]


def _draw_iterative_episode(axes: Axes, method: MethodResults, task: int, episode: int) -> None:
    """One small panel: the return above, the episode's number below."""
    kept = bool(method.first["kept"][task, episode])
    colour = style.KEPT if kept else style.REJECTED
    if episode == method.num_episodes - 1:
        colour = style.FINAL
    _draw_path(axes, episode_path(method, task, episode), colour, kept)
    value = f"{method.first['returns'][task, episode]:.1f}".replace("-", "\N{MINUS SIGN}")
    axes.set_title(value, color=colour, fontweight="bold" if kept else "normal", pad=2)
    axes.set_xlabel(str(episode + 1), fontsize=8, color=style.GUIDE, labelpad=1)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _iterative_legend(scene: Scene) -> list[Line2D]:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style.KEPT, linewidth=2.2, label="kept as context"),
        Line2D([], [], color=style.REJECTED, linewidth=1.2, label="rejected"),
        Line2D([], [], color=style.FINAL, linewidth=1.2, label="final episode, scored"),
    ]
    return handles + _goal_legend(scene)


def _draw_path(axes: Axes, path: Points, colour: Any, kept: bool) -> None:
    """A trajectory and a dot where it ends; kept ones are wider and on top."""
    width, order = (1.9, 5) if kept else (1.2, 4)
    axes.plot(*path.T, color=colour, linewidth=width, zorder=order)
    axes.plot(*path[-1], "o", color=colour, markersize=3.5, zorder=order)


def _draw_goals(axes: Axes, scene: Scene, star_size: float, dot_size: float) -> None:
    """All goals as a dotted guide, and the task's own as a star."""
    one_colour_each = [style.GUIDE] * len(scene.goals)  # else they are snapped to whole pixels
    x, y = scene.goals.T
    axes.scatter(x, y, dot_size, one_colour_each, linewidths=0, snap=False, zorder=2)
    if scene.goal is not None:
        axes.plot(
            *scene.goal,
            marker="*",
            color=style.GOAL,
            markersize=star_size,
            markeredgecolor="white",
            markeredgewidth=star_size / 15,
            zorder=3,
        )


def _goal_legend(scene: Scene) -> list[Line2D]:
    from matplotlib.lines import Line2D

    if scene.goal is None:
        return []
    star = Line2D([], [], color=style.GOAL, marker="*", linestyle="", markersize=10, label="goal")
    dots = Line2D([], [], color=style.GUIDE, linestyle=":", label="goals of all tasks")
    return [star, dots]


class Window(NamedTuple):
    """The part of the plane that every panel shows, at equal scales."""

    low: Points
    high: Points

    @property
    def ratio(self) -> float:
        """Height over width."""
        width, height = self.high - self.low
        return float(height / width)

    def apply(self, axes: Axes) -> None:
        axes.set_aspect("equal")
        axes.set_xlim(self.low[0], self.high[0])
        axes.set_ylim(self.low[1], self.high[1])


def _window(points: list[Points]) -> Window:
    """Around everything that is drawn, and never much narrower or flatter than a half circle."""
    everything = np.concatenate(points)
    finite = everything[np.isfinite(everything).all(axis=1)]
    low, high = finite.min(axis=0), finite.max(axis=0)
    half = (1.0 + MARGIN) * (high - low) / 2
    half = np.maximum(half, FLATTEST * half.max() or 1.0)
    return Window((low + high) / 2 - half, (low + high) / 2 + half)
