"""Progress on the terminal: a bar with rate and time left, or plain lines where there is none.

There is one bar at a time; what runs beside it writes lines.
"""

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 15.0
_has_bar = threading.Lock()


class ProgressBar:
    """`with ProgressBar("training", total) as bar: bar.advance_to(n)`."""

    def __init__(self, label: str, total: int, unit: str, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, markup=False, emoji=False)
        self._label, self._total, self._unit = label, total, unit
        self._first: int | None = None
        self._start = self._last_line = time.monotonic()
        self._bar: Progress | None = None
        if self._console.is_terminal and not quiet and _has_bar.acquire(blocking=False):
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.completed:>6.0f}/{task.total:.0f} {task.fields[rate]}"),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task(label, total=total, rate="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def advance_to(self, done: int) -> None:
        """`done` of the total are done; those done by the first call do not count in the rate."""
        now = time.monotonic()
        if self._first is None:
            self._first, self._start, self._last_line = done, now, now
        rate = (done - self._first) / max(now - self._start, 1e-9)
        if self._bar:
            self._bar.update(self._task, completed=done, rate=f"{rate:,.0f} {self._unit}/s")
        elif now - self._last_line > SECONDS_BETWEEN_LINES or done == self._total:
            self._last_line = now
            left = (self._total - done) / max(rate, 1e-9)
            self._console.print(
                f"{self._label}: {done:,}/{self._total:,} {self._unit}, "
                f"{rate:,.0f}/s, {left:.0f} s left"
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()
            _has_bar.release()
