"""Files and directories that are whole or absent, whatever happens while they are written."""

import errno
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from idaq.errors import IdaqError

# .NAME.tmp-PID-SYSTEM, or .NAME.tmp-PID as older versions have it
_TEMPORARY_NAME = re.compile(r"\..+\.tmp-([0-9]{1,9})(?:-([0-9a-f]{8}))?")
BOOT_ID, PID_NAMESPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
STALE_SECONDS = 86_400  # after so long without a change, a writer elsewhere is taken to be dead
SPACE = "Free some space, check the permissions, or choose another directory."
FEWER_FILES = "Raise the limit of open files (`ulimit -n`), or use fewer `workers`."
IsKind = Callable[[int], bool]  # tells from a mode, as `stat.S_ISREG` does


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the disk refuses while `path` is written into an error that names it."""
    try:
        yield
    except OSError as error:
        raise IdaqError(
            f"'{path}' cannot be written: {error.strerror or error}.", remedy_of(error)
        ) from error


def remedy_of(error: OSError) -> str:
    """What to do about an error of the system."""
    return FEWER_FILES if error.errno in (errno.EMFILE, errno.ENFILE) else SPACE


@contextmanager
def parents_of(path: Path) -> Iterator[None]:
    """Make the directories above `path`; if the block fails, remove those it left empty."""
    absent = [directory for directory in path.parents if not directory.exists()]
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for directory in absent:  # the innermost is first
            with suppress(OSError):
                directory.rmdir()
        raise


@contextmanager
def _replacing(path: Path, is_kind: IsKind) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}-{_this_system()}")
    with parents_of(path), writing(path):
        leftovers = path.parent.glob(temporaries_of(glob.escape(path.name)))
        remove_leftovers(leftovers, is_kind)
        try:
            yield temporary
            for file in [temporary, *temporary.rglob("*")] if temporary.is_dir() else [temporary]:
                _sync(file)
            temporary.replace(path)
            _sync(path.parent)
        finally:
            remove(temporary)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it becomes `path` when the block ends well."""
    with _replacing(path, stat.S_ISREG) as temporary:
        yield temporary


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield an empty temporary directory; it becomes `path`, which must not exist yet."""
    with _replacing(path, stat.S_ISDIR) as temporary:
        temporary.mkdir()
        yield temporary


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(json_text(value), encoding="utf-8")


def json_text(value: object) -> str:
    """JSON as idaq writes it, readable and with a stable layout."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def remove(path: Path) -> None:
    """Remove a file or a directory, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def temporaries_of(name: str) -> str:
    """The pattern of what a writer of `name` may leave behind when it is killed."""
    return f".{name}.tmp-*"


def remove_leftovers(paths: Iterable[Path], is_kind: IsKind) -> None:
    """Remove those of `paths` that a writer left behind when it was killed.

    Leftovers are of the kind that was being written, files or directories; anything else, such as a
    link, is not idaq's. Callers pass places that they write to, and never search a tree.
    """
    for path in list(paths):
        match = _TEMPORARY_NAME.fullmatch(path.name)
        if match is None:
            continue
        with suppress(FileNotFoundError):  # somebody was quicker
            found = path.lstat()
            if match[2] in (None, _this_system()):
                is_dead = not is_another_process(int(match[1]))
            else:
                is_dead = time.time() - found.st_mtime > STALE_SECONDS
            if is_dead and is_kind(found.st_mode):
                remove(path)


@cache
def _this_system() -> str:
    """Tells the processes that this one can see from those of other nodes and containers."""
    parts = [platform.node()]
    with suppress(OSError):  # not Linux
        parts += [BOOT_ID.read_text(), str(PID_NAMESPACE.readlink())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def is_another_process(pid: int) -> bool:
    """Whether a process with that id is alive and is not this one."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
