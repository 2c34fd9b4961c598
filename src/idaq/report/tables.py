"""Results as a table on the terminal, the paper's numbers beside ours."""

from typing import Any

from rich import box
from rich.table import Table

from idaq.bench.paper import published


def summary_table(summary: dict[str, Any]) -> Table:
    """One row per method of a run's summary."""
    seeds = summary["seeds"]
    what = "held-out training tasks" if summary["split"] == "validation" else "test tasks"
    table = Table(
        title=f"{summary['family']}, preset {summary['preset']}: return of the final episode",
        caption=f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}, mean over {what}"
        + (", 95% bootstrap interval" if len(seeds) > 1 else "; an interval needs more seeds"),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("method", no_wrap=True)
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("95% interval", justify="right", no_wrap=True)
    if any(row["success"] is not None for row in summary["rows"]):
        table.add_column("success", justify="right")
    table.add_column("paper", justify="right", no_wrap=True)
    table.add_column("episodes", justify="right")
    for row in summary["rows"]:
        paper = published(summary["family"], row["method"])
        cells = [row["method"], f"{row['mean']:.2f}"]
        low, high = row["ci95"]
        cells.append(f"[{low:.2f}, {high:.2f}]" if len(seeds) > 1 else "-")
        if len(table.columns) == 6:
            cells.append("-" if row["success"] is None else f"{row['success']:.2f}")
        cells.append(f"{paper.mean:.2f} ± {paper.ci95:.2f}" if paper else "-")
        cells.append(str(row["episodes"]))
        table.add_row(*cells, style="bold" if row["method"] == "idaq-return" else None)
    return table
