"""Files and directories that are whole or absent, whatever happens while they are written."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def _temporary_sibling(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp-{os.getpid()}")


def _process_is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_leftovers(path: Path) -> None:
    """Remove the temporary siblings of `path` whose writer was killed."""
    for leftover in path.parent.glob(f".{path.name}.tmp-*"):
        pid = leftover.name.rpartition("-")[2]
        if pid.isdigit() and (int(pid) == os.getpid() or not _process_is_alive(int(pid))):
            remove(leftover)


def remove(path: Path) -> None:
    """Remove a file or a directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    temporary = _temporary_sibling(path)
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
    with _replacing(path) as temporary:
        yield temporary


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield an empty temporary directory; it becomes `path`, which must not exist yet."""
    with _replacing(path) as temporary:
        temporary.mkdir()
        yield temporary


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, readable and with a stable layout."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
