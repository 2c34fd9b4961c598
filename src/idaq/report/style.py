"""The look of all figures, in one place: colours, names, and how a picture is written.

The colours are those of Okabe and Ito, which people with colour-blindness can tell apart; what
is kept or rejected also differs in width or in marker. Figures are drawn with Agg and without
pyplot, under Matplotlib's defaults and `SETTINGS`, whatever the user's own settings are, so that
the same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from idaq.runs.labels import label_of_method, label_of_results
from idaq.settings import AdaptConfig
from idaq.storage.outputs import PICTURE, PICTURE_MARK, output_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150
Options = dict[str, Any]  # of Matplotlib

SETTINGS: Options = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "xtick.color": "#666666",
    "ytick.color": "#666666",
    "xtick.labelcolor": "#222222",
    "ytick.labelcolor": "#222222",
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "text.color": "#222222",
    "axes.labelcolor": "#222222",
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "round",
}

KEPT = "#D55E00"
REJECTED = "#009E73"
FINAL = "#222222"
OFFLINE_DATA = "#A9CFEA"
GOAL = "#F0B400"
GUIDE = "#888888"


class Shape(NamedTuple):
    """The colour and marker of one method; the first is drawn on top, so its marker is small."""

    colour: str
    marker: str
    size: float = 5.0


class Look(NamedTuple):
    """How one method appears."""

    label: str
    colour: str
    marker: str
    size: float = 5.0


SHAPES = {  # of the paper's comparison; the others take turns with what is left
    "idaq-return": Shape("#0072B2", "o", 4.5),
    "idaq-prediction-error": Shape("#E69F00", "s", 5.5),
    "idaq-prediction-variance": Shape("#CC79A7", "^", 5.5),
    "posterior": Shape("#6B6B6B", "v", 5.5),
    "expert-context": Shape("#111111", "D", 4.0),
}
SHARED = Look("reference stage, the same for all", "#A0A0A0", "o", 4.5)
_OTHER_COLOURS = ("#56B4E9", "#8C6D31", "#5E3C99", "#B2182B")
_OTHER_MARKERS = ("P", "X", "<", ">", "*")


def looks(
    names: list[str], algorithm: str = "", configs: Mapping[str, AdaptConfig] | None = None
) -> dict[str, Look]:
    """A look for every method of an algorithm's agents, with the labels of their entries.

    `configs`, by name, are what results were made with: labels say by which search.
    """
    others = [name for name in names if name not in SHAPES]
    shapes = {name: SHAPES[name] for name in names if name in SHAPES}
    for index, name in enumerate(others):
        colour = _OTHER_COLOURS[index % len(_OTHER_COLOURS)]
        shapes[name] = Shape(colour, _OTHER_MARKERS[index % len(_OTHER_MARKERS)])
    known = configs or {}
    labels = {
        name: label_of_results(name, algorithm, known[name])
        if name in known
        else label_of_method(name, algorithm)
        for name in shapes
    }
    return {name: Look(labels[name], *shape) for name, shape in shapes.items()}


def pale(colour: str) -> str:
    """A colour mixed with white: unlike transparency, it stays pale where points coincide."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(0.38 * channel + 0.62 * 255):02x}" for channel in channels)


@contextmanager
def drawing(path: Path, width_inches: float, height_inches: float) -> Iterator[Figure]:
    """Yield an empty figure; it is written to `path` if the block ends without an error."""
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.style.context(SETTINGS, after_reset=True):
        figure = Figure(figsize=(width_inches, height_inches), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        with output_file(path, PICTURE) as temporary:
            figure.savefig(temporary, format="png", metadata=PICTURE_MARK)
