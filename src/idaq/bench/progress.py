"""How far a benchmark has come: cells done, running, failed, and the time left, for every event."""

import sys
import threading
import time
from collections.abc import Callable, Sequence

from idaq.bench.cells import Cell


def to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class BenchProgress:
    """Counts cells. The time left is estimated from the updates per second so far."""

    def __init__(
        self,
        todo: Sequence[Cell],
        *,
        done_before: int = 0,
        quiet: bool = False,
        say: Callable[[str], None] = to_stderr,
    ) -> None:
        self.quiet = quiet
        self._say = say
        self.errors: dict[Cell, Exception] = {}
        self._total = len(todo) + done_before
        self._done = done_before
        self._work = {cell: _work(cell) for cell in todo}
        self._work_done = 0
        self._running: dict[Cell, float] = {}
        self._waiting: set[Cell] = set()
        self._share: dict[Cell, float] = {}
        self._start = time.monotonic()
        self._lock = threading.Lock()

    def reporter(self, cell: Cell) -> Callable[[str, float], None]:
        """The function with which a cell reports its stage and the share of it that is done."""

        def say(stage: str, share: float) -> None:
            with self._lock:
                self._running.setdefault(cell, time.monotonic())
                self._share[cell] = share
            self._print(cell, stage)

        return say

    def is_running(self, cell: Cell) -> bool:
        with self._lock:
            return cell in self._running

    def waiting(self, cell: Cell) -> None:
        """Another process is at work on the cell."""
        with self._lock:
            self._running.pop(cell, None)
            is_news = cell not in self._waiting
            self._waiting.add(cell)
        if is_news:
            self._print(cell, "another process is at work on it")

    def finished(self, cell: Cell, error: Exception | None) -> None:
        """The cell is done, or has failed."""
        with self._lock:
            since = self._running.pop(cell, None)
            self._work_done += self._work.pop(cell, 0)
            if error is None:
                self._done += 1
            else:
                self.errors[cell] = error
        seconds = f" in {duration(time.monotonic() - since)}" if since is not None else ""
        self._print(cell, f"done{seconds}" if error is None else f"FAILED: {error}")

    def line(self) -> str:
        """Where the benchmark stands."""
        with self._lock:
            running, failed = len(self._running), len(self.errors)
            text = f"{self._done}/{self._total} cells done"
            text += f", {running} running" * bool(running) + f", {failed} failed" * bool(failed)
            shares = [self._share.get(cell, 0.0) * work for cell, work in self._work.items()]
            done = self._work_done + sum(shares)
            left = self._work_done + sum(self._work.values()) - done
            if done and left:
                elapsed = time.monotonic() - self._start
                text += f", about {duration(elapsed * left / done)} left"
            return text

    def _print(self, cell: Cell, event: str) -> None:
        if not self.quiet:
            self._say(f"[{self.line()}] {cell.label}: {event}")


def _work(cell: Cell) -> int:
    return cell.seeds * cell.config().train.num_updates if cell.trains else 1


def duration(seconds: float) -> str:
    """For people: 40 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
