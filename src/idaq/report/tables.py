"""Results as a table on the terminal, the paper's numbers beside ours."""

from collections.abc import Callable

from rich import box
from rich.table import Table

from idaq.bench.paper import Published
from idaq.bench.published import published, published_score
from idaq.config import Json
from idaq.errors import printable
from idaq.runs.labels import HEADLINE, subject_of


def summary_table(summary: Json) -> Table:
    """One row per method of a run's summary."""
    seeds = summary["seeds"]
    algo = next((row["algo"] for row in summary["rows"]), "")
    quality, components = summary.get("quality", "expert"), summary.get("components", ())
    subject = subject_of(summary["family"], quality, algo, components)
    what = "held-out training tasks" if summary["split"] == "validation" else "test tasks"
    table = Table(
        title=printable(f"{subject}, preset {summary['preset']}: the final episode"),
        caption=f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}, mean over {what}"
        + (", 95% bootstrap interval" if len(seeds) > 1 else "; an interval needs more seeds")
        + _episodes_needed(summary),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    columns = _SCORED if any("score" in row for row in summary["rows"]) else _PLAIN
    for name in columns:
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for row in summary["rows"]:
        cells = [columns[name](summary, row) for name in columns]
        table.add_row(*cells, style="bold" if row["method"] == HEADLINE else None)
    return table


def _episodes_needed(summary: Json) -> str:
    """How soon every method is about as good as expert context, if that is known."""
    needed = [
        f"{printable(row['method'])} {row['episodes_to_95'] or 'never'}"
        for row in summary["rows"]
        if row["episodes"] > 1 and row.get("episodes_to_95_ci95") is not None
    ]
    if not needed:
        return ""
    return f"\nepisodes to get 95% of the way to expert context: {', '.join(needed)}"


def plain_table(title: str, rows: list[Json]) -> Table:
    """Rows with the same keys, which name the columns."""
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in rows[0]:
        words = name.split("_")
        table.add_column(
            " ".join(words), no_wrap=name in ("name", "chosen_by"), min_width=max(map(len, words))
        )
    for row in rows:
        table.add_row(*map(_text_of, row.values()))
    return table


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(_text_of, value))
    return "-" if value is None else printable(str(value))


Cell = Callable[[Json, Json], str]


def _number(key: str, digits: int = 2) -> Cell:
    def cell(summary: Json, row: Json) -> str:
        return "-" if row.get(key) is None else f"{row[key]:.{digits}f}"

    return cell


def _interval(key: str) -> Cell:
    def cell(summary: Json, row: Json) -> str:
        if row.get(key) is None or len(summary["seeds"]) == 1:
            return "-"
        return f"[{row[key][0]:.2f}, {row[key][1]:.2f}]"

    return cell


def _paper(find: Callable[[str, str, str, str], Published | None]) -> Cell:
    def cell(summary: Json, row: Json) -> str:
        quality = summary.get("quality", "expert")
        number = find(summary["family"], row["method"], row["algo"], quality)
        return f"{number.mean:.2f} ± {number.ci95:.2f}" if number else "-"

    return cell


def _text(key: str) -> Cell:
    return lambda summary, row: printable(str(row[key]))


_PLAIN: dict[str, Cell] = {
    "method": _text("method"),
    "ours": _number("mean"),
    "95% interval": _interval("ci95"),
    "paper": _paper(published),
    "episodes": _text("episodes"),
}
_SCORED: dict[str, Cell] = {
    "method": _text("method"),
    "return": _number("mean", digits=0),
    "success": _number("success"),
    "score": _number("score"),
    "95% interval": _interval("score_ci95"),
    "paper": _paper(published_score),
}
