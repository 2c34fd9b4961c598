"""Faults at every single change that the program makes to a directory.

Before Python opens, renames or removes a file, it calls audit hooks, and a hook that raises
prevents the change. So a process can "die" before any of its changes to the disk, or the disk can
be "full" from any of them on, within milliseconds and always at the same place.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


class Death(BaseException):
    """What a killed process never gets to handle."""


class Injector:
    """Counts changes below a directory, and makes them fail from one of them on."""

    def __init__(self) -> None:
        self.root: str | None = None
        self.count = 0
        self.fail_at = 0
        self.kind = ""
        sys.addaudithook(self._hook)  # cannot be removed; does nothing without a root

    @property
    def failed(self) -> bool:
        return self.count >= self.fail_at

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.root is None or not self._is_change(event, arguments):
            return
        if self.kind == "full" and (event in ("os.remove", "os.rmdir") or self._is_lock(arguments)):
            return  # these take no space
        self.count += 1
        if not self.failed:
            return
        if self.kind == "death":
            raise Death
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _is_change(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, _, flags = arguments
            changes = bool(flags & WRITING)
        else:
            path, changes = arguments[0] if arguments else None, event in CHANGES
        inside = isinstance(path, str | os.PathLike) and os.fspath(path).startswith(str(self.root))
        return changes and inside

    @staticmethod
    def _is_lock(arguments: tuple[Any, ...]) -> bool:
        return str(arguments[0]).endswith(".lock")

    @contextmanager
    def failing(self, root: Path, kind: str, at: int) -> Iterator[None]:
        """Make every change below `root` fail, from the given one on."""
        self.root, self.kind, self.fail_at, self.count = str(root), kind, at, 0
        try:
            yield
        finally:
            self.root = None


injector = Injector()
