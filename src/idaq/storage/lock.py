"""File locks. A lock ends with its process; a lock file by itself means nothing."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from idaq.errors import IdaqError
from idaq.storage.atomic import parents_of
from idaq.storage.checked import open_regular


class BusyError(IdaqError):
    """Another process holds the directory."""


@contextmanager
def locked(lock_file: Path) -> Iterator[None]:
    """Hold a lock, or raise `BusyError` at once where another process has it."""
    with parents_of(lock_file), os.fdopen(_open(lock_file), "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(
                f"Another process is working in '{lock_file.parent}'.",
                "Wait until it ends, or choose another `directory`.",
            ) from error
        yield


def _open(lock_file: Path) -> int:
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IdaqError(f"'{lock_file}' is no regular file.", "Remove it.")
    return descriptor


def is_locked(lock_file: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        with open_regular(lock_file) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
