"""File locks. A lock ends with its process; a lock file by itself means nothing."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from idaq.errors import IdaqError
from idaq.storage.atomic import parents_of


class BusyError(IdaqError):
    """Another process holds the directory."""


@contextmanager
def locked(lock_file: Path) -> Iterator[None]:
    """Hold a lock, or raise `BusyError` at once where another process has it."""
    with parents_of(lock_file), lock_file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(
                f"Another process is working in '{lock_file.parent}'.",
                "Wait until it ends, or choose another `directory`.",
            ) from error
        yield


def is_locked(lock_file: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        with lock_file.open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
