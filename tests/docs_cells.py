"""What the tables of README and docs are put together from."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["".join(f"| {cell} " if cell else "| " for cell in row) for row in (headings, *rows)]
    return "\n".join(f"{line}|" for line in (lines[0], "|---" * len(headings), *lines[1:]))


def summary_rows(run: str) -> list[dict[str, Any]]:
    """The rows of a committed run's summary, one per method."""
    rows = json.loads((ROOT / "results" / run / "summary.json").read_text())["rows"]
    assert isinstance(rows, list)
    return rows


def with_interval(mean: float, ci95: Sequence[float]) -> str:
    """A mean and its interval, as text."""
    return f"{mean:.2f} [{ci95[0]:.2f}, {ci95[1]:.2f}]"
