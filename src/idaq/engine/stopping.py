"""Ctrl-C and SIGTERM: an exception at once and, where Python drops that, at the next safe point.

An exception that a signal handler raises inside a callback, such as JAX's at a garbage collection,
gets lost. So the handler notes the signal as well, and whoever does long work calls `check_stopped`
between two pieces of it. SIGTERM may leave a period of grace in which only these points end the
work, so that training can save its state first.
"""

import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from idaq.errors import IdaqError

MAX_GRACE = 86_400.0  # seconds
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}  # 128 and the signal's number
_noted: "list[Stopped]" = []  # the signals since the program began its work


class Stopped(KeyboardInterrupt):
    """The program was told to end: by Ctrl-C or, as batch systems do, by SIGTERM."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.code = EXIT_CODES[signal.Signals(number)]


def is_stopping() -> bool:
    """Whether the work is to end at the next safe point."""
    return bool(_noted)


def check_stopped() -> None:
    """A safe point: end here if a signal has come. Any thread may call it."""
    if _noted:
        raise _noted[0]


@contextmanager
def stopped_by_signals(grace: float = 0.0) -> Iterator[None]:
    """Raise `Stopped` in the block when a signal comes; after SIGTERM, `grace` seconds later.

    A signal that is ignored, as in the background of a shell, stays ignored.
    """
    if not 0.0 <= grace <= MAX_GRACE or math.isnan(grace):
        raise IdaqError(f"`grace` is {grace}.", f"Give 0 to {MAX_GRACE:,.0f} seconds.")
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    main = threading.get_ident()
    again = threading.Timer(grace, lambda: signal.pthread_kill(main, signal.SIGTERM))
    again.daemon = True

    def note(number: int, frame: FrameType | None) -> None:
        is_first = not _noted
        _noted.append(Stopped(number))
        if is_first and number == signal.SIGTERM and grace:
            again.start()
        else:
            raise _noted[-1]

    before = {each: signal.getsignal(each) for each in EXIT_CODES}
    handled = [each for each in before if before[each] != signal.SIG_IGN]
    hook = sys.unraisablehook
    try:
        sys.unraisablehook = _without_ours(hook)
        for each in handled:
            signal.signal(each, note)
        yield
        check_stopped()
    finally:
        for each in handled:
            signal.signal(each, before[each])
        again.cancel()
        sys.unraisablehook = hook
        _noted.clear()


def _without_ours(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Python's report of what it dropped, without what comes again at a safe point."""
    return lambda dropped: None if issubclass(dropped.exc_type, Stopped) else hook(dropped)
