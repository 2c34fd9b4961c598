"""What commands print: results to stdout; progress, hints and errors to stderr."""

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from idaq.errors import printable

if TYPE_CHECKING:
    from idaq.runs.run import Run


def say(message: str) -> None:
    """Print to stderr, for people to read."""
    print(printable(message, keep="\n"), file=sys.stderr)


def show(table: Table) -> None:
    """Print a table, whose texts mean nothing but themselves."""
    Console(markup=False, emoji=False).print(table)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    """Print a table of rows that have the same keys."""
    from idaq.report.tables import plain_table

    show(plain_table(title, rows))


def print_table(summary: dict[str, Any]) -> None:
    """Print the table of a run."""
    from idaq.report.tables import summary_table

    show(summary_table(summary))


def say_what_is_missing(run: "Run", summary: dict[str, Any]) -> None:
    """Say which results are gone or incomplete, and what to do about it."""
    from idaq.runs.summary import without_results

    for name in without_results(run):
        say(
            f"{name}: its results are gone, and summary.json is all that is left of it; remove "
            f"'{run.directory.summary_file}' if it shall go too"
        )
    shown = {row["method"] for row in summary["rows"]}
    for name in sorted(set(run.directory.adapt_names()) - shown):
        say(f"{name}: not all seeds have results; complete them with `idaq adapt --resume`")
