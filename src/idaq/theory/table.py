"""The checks as a table for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from idaq.theory.checks import Check


def outcome_text(check: Check) -> Text:
    """One word for what came out."""
    if check.vacuous:
        return Text("vacuous", style="yellow")
    if check.holds:
        return Text("holds", style="green")
    return Text("false", style="red")


def print_table(
    checks: Sequence[Check], console: Console | None = None, *, notes: bool = True
) -> None:
    """Print the outcome, the statement, the paper's value and the computed one, with notes."""
    console = console or Console()
    table = Table(show_lines=True, expand=True)
    table.add_column("outcome", justify="center", no_wrap=True)
    table.add_column("statement", ratio=5)
    table.add_column("paper", ratio=3)
    table.add_column("computed", ratio=4)
    for check in checks:
        statement = Text(check.name, style="bold")
        statement.append(f"\n{check.statement}", style="not bold")
        if notes and check.note:
            statement.append(f"\n{check.note}", style="not bold dim")
        table.add_row(outcome_text(check), statement, Text(check.paper), Text(check.computed))
    console.print(table)
    counts = {
        "hold": sum(check.holds is True for check in checks),
        "false": sum(check.holds is False for check in checks),
        "vacuous": sum(check.vacuous for check in checks),
    }
    console.print(", ".join(f"{count} {what}" for what, count in counts.items() if count))
