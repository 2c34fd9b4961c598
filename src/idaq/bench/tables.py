"""An experiment's results as a table, the paper's numbers beside ours."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idaq.bench.cells import Adaptation, Cell, cell_of, description_place
from idaq.bench.choices import Format
from idaq.bench.experiments import Column, Experiment, Row
from idaq.bench.paper import Published
from idaq.bench.published import has_score, number_of
from idaq.bench.status import status_of
from idaq.errors import IdaqError
from idaq.runs.statistics import (
    bootstrap_interval,
    interquartile_mean,
    interquartile_mean_interval,
    probability_of_improvement,
    probability_of_improvement_interval,
)
from idaq.runs.summary import seed_values
from idaq.storage.checked import is_number, read_object

MIN_SETS = 2  # for statistics over sets


@dataclass(frozen=True)
class Entry:
    """One number of a table: ours if there is one, and the paper's if it has one."""

    values: NDArray[np.float64] | None  # [seeds]
    paper: Published | None
    note: str = ""  # why there is none of ours

    @property
    def mean(self) -> float | None:
        return None if self.values is None else float(self.values.mean())

    @property
    def interval(self) -> tuple[float, float] | None:
        if self.values is None or len(self.values) < 2:
            return None
        return bootstrap_interval(self.values)


@dataclass(frozen=True)
class ResultTable:
    """Rows of environments, columns of methods."""

    experiment: Experiment
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    entries: dict[tuple[str, str], Entry]  # by names of row and column

    def entry(self, row: Row, column: Column) -> Entry:
        return self.entries[row.name, column.name]


def make_table(experiment: Experiment, results: Path, cells: Sequence[Cell]) -> ResultTable:
    """The table of these cells' results so far."""
    names = {cell.row for cell in cells}
    rows = tuple(row for row in experiment.rows if row.name in names)
    entries = {
        (row.name, column.name): _entry(results, cell_of(cells, row, column), row, column)
        for row in rows
        for column in experiment.columns
    }
    return ResultTable(experiment, rows, experiment.columns, entries)


def _entry(results: Path, cell: Cell | None, row: Row, column: Column) -> Entry:
    paper = number_of(row, column)
    if cell is None:
        return Entry(None, paper, "not asked for")
    try:
        return _entry_of(results, cell, row, column, paper)
    except IdaqError as error:  # one cell that cannot be read leaves the others
        return Entry(None, paper, str(error))


def _entry_of(
    results: Path, cell: Cell, row: Row, column: Column, paper: Published | None
) -> Entry:
    status = status_of(results, cell)
    if status.state != "done":
        return Entry(None, paper, status.note or status.state)
    if column.method is None:
        place = description_place(results, cell)
        mean = read_object(place, mean_return=is_number)["mean_return"]
        return Entry(np.asarray([mean], np.float64), paper)
    assert status.run is not None
    name = next(a.name for a in cell.adaptations if _is_column(a, column))
    values = seed_values(status.run, name, list(range(cell.seeds)))
    if not has_score(row.family):
        return Entry(values["mean"], paper)
    if "score" not in values:
        return Entry(None, paper, "the data has no successes to measure by")
    return Entry(values["score"], paper)


def _is_column(adaptation: Adaptation, column: Column) -> bool:
    return bool(adaptation.method == column.method and adaptation.settings == column.adapt)


# --- Over all sets --------------------------------------------------------------------------


@dataclass(frozen=True)
class Aggregate:
    """Statistics of a column over the sets for which all columns have scores."""

    mean: float
    interquartile_mean: float
    interquartile_interval: tuple[float, float]
    improvement: float | None  # probability that the first column's runs are better
    improvement_interval: tuple[float, float] | None
    paper_mean: float | None


def aggregates(made: ResultTable) -> tuple[list[Row], dict[str, Aggregate]]:
    """The ML1 sets for which all columns that have scores have one; statistics per column name."""
    sets = [row for row in made.rows if has_score(row.family)]
    columns = [
        column
        for column in made.columns
        if any(made.entry(row, column).values is not None for row in sets)
    ]
    sets = [r for r in sets if all(made.entry(r, c).values is not None for c in columns)]
    if len(sets) < MIN_SETS or not columns:
        return [], {}
    scores = {c.name: np.stack([_values(made.entry(r, c)) for r in sets]) for c in columns}
    first = scores[columns[0].name]
    found = {}
    for column in columns:
        own = scores[column.name]
        is_first = column is columns[0]
        papers = [made.entry(row, column).paper for row in sets]
        known = [paper.mean for paper in papers if paper is not None]
        found[column.name] = Aggregate(
            mean=float(own.mean()),
            interquartile_mean=interquartile_mean(own),
            interquartile_interval=interquartile_mean_interval(own),
            improvement=None if is_first else probability_of_improvement(first, own),
            improvement_interval=(
                None if is_first else probability_of_improvement_interval(first, own)
            ),
            paper_mean=float(np.mean(known)) if len(known) == len(sets) else None,
        )
    return sets, found


def _values(entry: Entry) -> NDArray[np.float64]:
    assert entry.values is not None
    return entry.values


# --- As text --------------------------------------------------------------------------------


def render(made: ResultTable, form: Format) -> str:
    """The table as Markdown, CSV or LaTeX."""
    return {"md": _markdown, "csv": _csv, "latex": _latex}[form](made)


def _markdown(made: ResultTable) -> str:
    header = ["environment"]
    for column in made.columns:
        header += [column.name, "paper"]
    lines = [_line(header), _line(["---"] + ["---:"] * (len(header) - 1))]
    for row in made.rows:
        cells = [row.name]
        for column in made.columns:
            entry = made.entry(row, column)
            cells += [ours_text(entry), paper_text(entry.paper)]
        lines.append(_line(cells))
    sets, found = aggregates(made)
    if found:
        for label, text in _aggregate_lines(made, found):
            cells = [f"*{label}, {len(sets)} sets*"]
            for column in made.columns:
                mine = found.get(column.name)
                cells += [text(mine) if mine else "-", _aggregate_paper(label, mine)]
            lines.append(_line(cells))
    notes = sorted(
        {f"{row.name}, {column.name}: {entry.note}" for row, column, entry in _gaps(made)}
    )
    tail = ["", *(f"- {note}" for note in notes)] if notes else []
    return "\n".join([f"**{made.experiment.title}**", "", *lines, *tail]) + "\n"


def _gaps(made: ResultTable) -> list[tuple[Row, Column, Entry]]:
    pairs = [(row, column) for row in made.rows for column in made.columns]
    found = [(row, column, made.entry(row, column)) for row, column in pairs]
    return [each for each in found if each[2].values is None]


def _aggregate_lines(
    made: ResultTable, found: dict[str, Aggregate]
) -> list[tuple[str, Callable[[Aggregate], str]]]:
    def improvement(each: Aggregate) -> str:
        if each.improvement is None or each.improvement_interval is None:
            return "-"
        return f"{each.improvement:.2f} {_interval_text(each.improvement_interval)}"

    return [
        ("mean", lambda each: f"{each.mean:.2f}"),
        (
            "interquartile mean",
            lambda each: (
                f"{each.interquartile_mean:.2f} {_interval_text(each.interquartile_interval)}"
            ),
        ),
        (f"P({made.columns[0].name} is better)", improvement),
    ]


def _aggregate_paper(label: str, each: Aggregate | None) -> str:
    if label != "mean" or each is None or each.paper_mean is None:
        return "-"
    return f"{each.paper_mean:.2f}"


def ours_text(entry: Entry) -> str:
    """A mean and its interval."""
    if entry.mean is None:
        return "-"
    interval = entry.interval
    return f"{entry.mean:.2f}" + (f" {_interval_text(interval)}" if interval else "")


def paper_text(paper: Published | None) -> str:
    """The paper's mean and half width."""
    if paper is None:
        return "-"
    return f"{paper.mean:.2f}" + (f" ± {paper.ci95:.2f}" if paper.ci95 else "")


def _interval_text(interval: tuple[float, float]) -> str:
    return f"[{interval[0]:.2f}, {interval[1]:.2f}]"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _csv(made: ResultTable) -> str:
    """One line per entry, in full precision."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header = "environment,method,seeds,mean,ci95_low,ci95_high,paper,paper_ci95,note"
    writer.writerow(header.split(","))
    for row in made.rows:
        for column in made.columns:
            entry = made.entry(row, column)
            low, high = entry.interval or ("", "")
            writer.writerow(
                [
                    row.name,
                    column.name,
                    0 if entry.values is None else len(entry.values),
                    "" if entry.mean is None else entry.mean,
                    low,
                    high,
                    "" if entry.paper is None else entry.paper.mean,
                    "" if entry.paper is None else entry.paper.ci95,
                    entry.note,
                ]
            )
    return stream.getvalue()


def _latex(made: ResultTable) -> str:
    """A `tabular` with two columns per method: our numbers and, beside them, the paper's."""
    columns = "l" + "rr" * len(made.columns)
    head = " & ".join(
        ["environment"]
        + [rf"\multicolumn{{2}}{{c}}{{{_escape(column.name)}}}" for column in made.columns]
    )
    second = " & ".join([""] + ["ours & paper"] * len(made.columns))
    lines = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\hline",
        head + r" \\",
        second + r" \\",
        r"\hline",
    ]
    for row in made.rows:
        cells = [_escape(row.name)]
        for column in made.columns:
            entry = made.entry(row, column)
            paper = paper_text(entry.paper).replace("±", r"$\pm$")
            cells += [_minus(ours_text(entry)), _minus(paper)]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"]) + "\n"


def _escape(text: str) -> str:
    return text.replace("_", r"\_").replace("%", r"\%").replace("&", r"\&")


def _minus(text: str) -> str:
    """Minus signs in math mode; a dash in place of a number becomes an en dash."""
    return text.replace("-", "$-$") if text != "-" else "--"
