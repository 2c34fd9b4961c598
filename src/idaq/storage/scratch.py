"""A directory below $TMPDIR that is removed when its process ends, however that happens.

A file in it, its mark, says that idaq made this very directory, and its process keeps that file
locked. A lock ends with the process that holds it and, unlike a process id, is visible in every
container that shares the directory. So a directory is removed only if it is this user's, has its
mark, and the mark can be locked; no other is touched, whatever its name.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "idaq-"
MARK = ".idaq-scratch"
SECONDS_BETWEEN_TRIES = 0.05


class Scratch:
    """A new directory, until `close` or the end of the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        lock = _mark(self.path)
        self.close = weakref.finalize(self, _end, self.path, lock, os.getpid())


def _mark(path: Path) -> int:
    """Lock the mark before writing it, so that it is never seen complete and unlocked."""
    mark = os.open(path / MARK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)  # not inheritable
    with suppress(OSError):  # a file system without locks: nobody else will remove the directory
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(mark, _words(path))
    return mark


def _words(path: Path) -> bytes:
    """The content of the mark; it has the name, so that a renamed copy has no valid mark."""
    return f"{path.name} is a directory of idaq's worker processes and ends with them.\n".encode()


def _end(path: Path, lock: int, maker: int) -> None:
    if os.getpid() == maker:  # and not a fork of it
        _remove_tree(path)
    os.close(lock)


def remove_abandoned() -> None:
    """Remove the scratch directories of processes that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        remove_if_abandoned(path)


def remove_if_abandoned(path: Path) -> None:
    """Remove a scratch directory that no process holds; anything else stays as it is."""
    with suppress(OSError), _opened_mark(path) as mark:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(mark), (path / MARK).lstat()):  # nobody was quicker
            _remove_tree(path)


def remove_when_abandoned(path: Path, seconds: float) -> None:
    """The same, tried for some seconds: an ending process releases its lock in its last moments."""
    end = time.monotonic() + seconds
    remove_if_abandoned(path)
    while path.exists() and time.monotonic() < end:
        time.sleep(SECONDS_BETWEEN_TRIES)
        remove_if_abandoned(path)


@contextmanager
def _opened_mark(path: Path) -> Iterator[int]:
    """Open the mark of a directory of this user; an `OSError` if there is none."""
    if not _is_own(path.lstat(), stat.S_ISDIR):
        raise PermissionError(path)
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK  # it may be anything, such as a pipe
    mark = os.open(path / MARK, flags)
    try:
        words = _words(path)
        is_file = _is_own(os.fstat(mark), stat.S_ISREG)
        if not is_file or os.read(mark, len(words) + 1) != words:
            raise PermissionError(path)
        yield mark
    finally:
        os.close(mark)


def _is_own(found: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(found.st_mode) and found.st_uid == os.geteuid()


def _remove_tree(path: Path) -> None:
    """The mark goes last, so that an interrupted removal can be resumed. No link is followed."""
    with suppress(OSError):
        for entry in path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != MARK:
                entry.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
