"""The theory in pictures: the gap, the leave probability with its bound, adaptation on the doors.

Every curve is computed from the laws themselves; nothing is sampled.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from idaq.errors import IdaqError
from idaq.storage.outputs import PICTURE, PICTURE_MARK, check_output, output_file
from idaq.theory.bounds import leave_bound, leave_bound_as_printed
from idaq.theory.checks.shift import doors_data
from idaq.theory.consistency import log_log_slope
from idaq.theory.examples import doors, halving_levers
from idaq.theory.mdps import best_value
from idaq.theory.thompson import LeaveLaw, expected_returns, optimal_returns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#2b6cb0", "#dd6b20", "#2f855a", "#718096"
DELTA = 0.05
NUM_LEVELS = 24
PLENTY = 10**12
FILES = ("gap.png", "leave_probability.png", "adaptation.png")
FITTED = (10**2, 10**5)  # the sizes over which slopes are fitted


def check_figures(directory: Path) -> None:
    """Refuse a directory in which a figure cannot be written."""
    if directory.exists() and not directory.is_dir():
        raise IdaqError(f"'{directory}' is a file.", "Give a directory for the figures.")
    for name in FILES:
        check_output(directory / name, PICTURE)


def write_figures(directory: Path, v_range: range = range(3, 11)) -> list[Path]:
    """Draw every figure into a directory, made if need be; overwrite only such figures."""
    check_figures(directory)
    drawings: tuple[Callable[[], Figure], ...] = (
        lambda: draw_gap(v_range),
        draw_leave_probability,
        lambda: draw_adaptation(v_range[-1]),
    )
    paths = [directory / name for name in FILES]
    for path, draw in zip(paths, drawings, strict=True):
        with output_file(path, PICTURE) as temporary:
            draw().savefig(temporary, format="png", dpi=160, metadata=PICTURE_MARK)
    return paths


def _new_figure(width: float, height: float, columns: int = 1) -> "tuple[Figure, list[Axes]]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = list(figure.subplots(1, columns, squeeze=False)[0])
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="#e2e8f0", linewidth=0.8)
        axis.set_axisbelow(True)
    return figure, axes


# --- The gap against v ---


def draw_gap(v_range: range) -> "Figure":
    """Offline evaluation, the online optimum and the gap between them."""
    offline, online = [], []
    for v in v_range:
        data = doors_data(v, v)
        offline.append(float(best_value(data.data_mdp(), sense="min")[0]))
        online.append(float(best_value(data.belief_mdp.mdp, data.batch_actions())[0]))
    figure, (axis,) = _new_figure(7.0, 4.4)
    axis.fill_between(v_range, online, offline, color=ORANGE, alpha=0.12, linewidth=0)
    axis.plot(v_range, offline, "o-", color=ORANGE, linewidth=2)
    axis.plot(v_range, online, "o-", color=BLUE, linewidth=2)
    last = v_range[-1]
    for values, text, color in (
        (offline, "offline evaluation\n$J_{D^+} = v$", ORANGE),
        (online, "best online\n$J_{M^+} = (v+1)/2$", BLUE),
    ):
        axis.annotate(
            text, (last, values[-1]), (10, 0), textcoords="offset points", color=color, va="center"
        )
    middle = v_range[len(v_range) // 2]
    at = v_range.index(middle)
    axis.annotate(
        "",
        (middle, offline[at]),
        (middle, online[at]),
        arrowprops={"arrowstyle": "<->", "color": GREY, "shrinkA": 4, "shrinkB": 4},
    )
    gap = Fraction(offline[at] - online[at])
    axis.annotate(
        f"gap $(v-1)/2 = {gap}$",
        (middle, (offline[at] + online[at]) / 2),
        (8, 0),
        textcoords="offset points",
        color=GREY,
        va="center",
    )
    axis.set(
        xlabel="doors v (tasks, and adaptation episodes)",
        ylabel="return over v episodes",
        xticks=list(v_range),
        ylim=(0, None),
        title="What the data promises and what any meta-policy can get",
    )
    axis.margins(x=0.03)
    return figure


# --- The leave probability and its bound ---


def draw_leave_probability() -> "Figure":
    """The mean leave probability and its bound, against dataset size and number of tasks."""
    figure, (by_data, by_tasks) = _new_figure(11.5, 4.8, columns=2)
    sizes = sorted({round(10 ** (k / 8)) for k in range(8 * 8 + 1)})
    _draw_leave_panel(by_data, sizes, [(PLENTY, n) for n in sizes], "K")
    by_data.set(
        xlabel="trajectories per task K",
        ylabel="probability to leave the data",
        title="More data per task, every task trained on",
    )
    _draw_leave_panel(by_tasks, sizes, [(n, PLENTY) for n in sizes], "m")
    by_tasks.set(xlabel="training tasks m", title="More training tasks, plenty of data for each")
    figure.suptitle(
        f"A lever with one of {NUM_LEVELS + 1} success rates: the closest task's hypothesis in a "
        "new task",
        fontsize=12,
    )
    return figure


def _draw_leave_panel(
    axis: "Axes", sizes: Sequence[int], grid: Sequence[tuple[int, int]], symbol: str
) -> None:
    family = halving_levers(NUM_LEVELS)
    law = LeaveLaw(family)
    means: list[float] = []
    corrected: list[float] = []
    printed: list[float] = []
    for num_tasks, num_trajectories in grid:
        here = {"num_tasks": num_tasks, "num_trajectories": num_trajectories}
        probabilities = law.approximate(**here)
        means.append(sum(float(value) * p for value, p in probabilities.items()))
        for values, bound in ((corrected, leave_bound), (printed, leave_bound_as_printed)):
            values.append(bound(family, delta=DELTA, **here).value)
    low, high = FITTED
    fitted = [at for at, n in enumerate(sizes) if low <= n <= high]
    bottom, top = 1e-11, 1e4
    axis.axhspan(1, top, color=GREY, alpha=0.12, linewidth=0)
    axis.text(1.3, 2.2e3, "vacuous: above 1", color=GREY, va="center")
    axis.loglog(sizes, corrected, color=ORANGE, linewidth=2, label="bound, corrected")
    axis.loglog(
        sizes, printed, color=ORANGE, linewidth=1.4, linestyle=":", label="bound, as printed"
    )
    axis.loglog(sizes, means, color=BLUE, linewidth=2, label="mean leave probability")
    for values, color, anchor, offset in (
        (corrected, ORANGE, 10**4, (8, 14)),
        (means, BLUE, 10**3, (12, 8)),
    ):
        slope = log_log_slope([sizes[i] for i in fitted], [values[i] for i in fitted])
        at = sizes.index(anchor)
        axis.annotate(
            f"${symbol}^{{{slope:.2f}}}$",
            (sizes[at], values[at]),
            offset,
            textcoords="offset points",
            color=color,
            fontsize=13,
        )
    axis.legend(loc="lower left", frameon=False)
    axis.set(ylim=(bottom, top), xlim=(1, sizes[-1]))


# --- Adaptation on the doors ---


def draw_adaptation(num_doors: int) -> "Figure":
    """Online returns of an optimal, an in-distribution and a naive meta-policy, by episode."""
    family = doors(num_doors)
    episodes = range(1, num_doors + 1)
    curves = [
        (
            [float(value) for value in optimal_returns(family, num_doors)],
            "Bayes-optimal:\nnever the same door twice",
            (GREY, "--"),
        ),
        (
            [float(v) for v in expected_returns(family, num_doors, "in-distribution")],
            "in-distribution:\nset aside, draw again",
            (BLUE, "-"),
        ),
        (
            [float(value) for value in expected_returns(family, num_doors, "naive")],
            "naive:\ntrusted, belief lost",
            (ORANGE, "-"),
        ),
    ]
    figure, (axis,) = _new_figure(8.6, 4.6)
    axis.plot(episodes, [1.0] * num_doors, color=GREEN, linewidth=1.5)
    axis.annotate(
        "offline evaluation",
        (episodes[0], 1),
        (0, 6),
        textcoords="offset points",
        color=GREEN,
    )
    for values, text, (color, style) in curves:
        axis.plot(episodes, values, style, marker="o", markersize=4, color=color, linewidth=2)
        axis.annotate(
            text,
            (episodes[-1], values[-1]),
            (10, 0),
            textcoords="offset points",
            color=color,
            va="center",
        )
    axis.set(
        xlabel="adaptation episode",
        ylabel="expected return",
        xticks=list(episodes),
        ylim=(0, 1.12),
        title=f"{num_doors} doors: what becomes of an episode that the data cannot explain",
    )
    return figure
