"""Directories that say what they hold, and that one process at a time may write to.

`run.json` is written once. It holds an identity, which is everything that decides what the
directory will contain, and a provenance, which decides nothing. Work is continued only in a
directory of the same identity.
"""

import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.storage.atomic import remove_leftovers, temporaries_of, write_json
from idaq.storage.checked import REMEDY, read_object
from idaq.storage.layout import MANIFEST_FILE, OwnNames
from idaq.storage.lock import locked

FORMAT_VERSION = 1
LOCK_FILE = ".lock"


def read_manifest(directory: Path) -> Json:
    """The manifest of a directory, or an error if it has none that can be used."""
    file = directory / MANIFEST_FILE
    if not file.is_file():
        raise IdaqError(
            f"'{directory}' is no run directory: it has no {MANIFEST_FILE}.",
            "Make one with `idaq run` or `idaq train`.",
        )
    manifest = read_object(file)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise IdaqError(
            f"'{file}' has format version {version}; this idaq reads version {FORMAT_VERSION}.",
            "Run again, or use the idaq that wrote it.",
        )
    if not all(isinstance(manifest.get(part), dict) for part in ("identity", "provenance")):
        raise IdaqError(f"'{file}' does not say what the run is.", REMEDY)
    return manifest


@contextmanager
def held(directory: Path, own: OwnNames) -> Iterator[None]:
    """Hold a directory, so that two processes never write to it at the same time."""
    lock_file = directory / LOCK_FILE
    with locked(lock_file):
        try:
            remove_leftovers(_temporaries(directory, own.files), stat.S_ISREG)
            remove_leftovers(_temporaries(directory, own.directories), stat.S_ISDIR)
            yield
        finally:
            if not (directory / MANIFEST_FILE).exists():  # nothing was begun
                lock_file.unlink(missing_ok=True)


def _temporaries(directory: Path, targets: Iterable[str]) -> Iterator[Path]:
    """What writers of the directory's own files may have left behind, in its own directories."""
    place = directory.resolve()
    for target in targets:
        *folders, name = target.split("/")
        for path in place.glob("/".join([*folders, temporaries_of(name)])):
            if path.parent.resolve() == path.parent:  # no link leads there
                yield path


@contextmanager
def claimed(
    directory: Path,
    own: OwnNames,
    identity: Json,
    provenance: Json,
    resume: bool,
    read: Callable[[Path], Json] = read_manifest,
) -> Iterator[Json]:
    """Hold a directory for new work, or to continue the same; yields its manifest."""
    manifest = _find_same(directory, identity, resume, read)  # before anything is written
    with held(directory, own):
        if manifest is None:  # another process may have been quicker
            manifest = _find_same(directory, identity, resume, read)
        if manifest is None:
            content = {"identity": identity, "provenance": provenance}
            manifest = {"format_version": FORMAT_VERSION, **content}
            write_json(directory / MANIFEST_FILE, manifest)
        yield manifest


def _find_same(
    directory: Path, identity: Json, resume: bool, read: Callable[[Path], Json]
) -> Json | None:
    """The manifest that is there, if its work may be continued; None if there is none."""
    if not (directory / MANIFEST_FILE).is_file():
        _check_new(directory)
        return None
    if not resume:
        raise IdaqError(
            f"'{directory}' holds a run already.",
            "Add `resume=True` to go on with it, or choose another `directory`.",
        )
    manifest = read(directory)
    different = [
        f"{key}: {before!r} there, {now!r} here"
        for key, before, now in _differences(manifest["identity"], identity)
    ]
    if different:
        raise IdaqError(
            f"'{directory}' is a run of another configuration ({'; '.join(different[:4])}).",
            "Give the same options, or choose another `directory`.",
        )
    return manifest


def _check_new(directory: Path) -> None:
    """Refuse a directory with more in it, hidden or not, than an interrupted start leaves."""
    if not directory.exists():
        return
    problem, remedy = (
        f"'{directory}' exists already and is no run directory",
        "Choose another `directory`.",
    )
    if not directory.is_dir():
        raise IdaqError(f"{problem}.", remedy)
    others = sorted(path.name for path in directory.iterdir() if not _is_of_a_start(path))
    if others:
        raise IdaqError(f"{problem}: it has '{others[0]}'.", remedy)


def _is_of_a_start(path: Path) -> bool:
    """Whether it is of a process that is or was only starting: an empty lock, half a manifest."""
    try:
        found = path.lstat()
    except FileNotFoundError:  # it has just been removed
        return True
    is_lock = path.name == LOCK_FILE and found.st_size == 0
    is_manifest = path.match(temporaries_of(MANIFEST_FILE))
    return stat.S_ISREG(found.st_mode) and (is_lock or is_manifest)


def _differences(
    before: object, now: object, name: str = ""
) -> Iterator[tuple[str, object, object]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(set(before) | set(now)):
            inner = f"{name}.{key}" if name else str(key)
            yield from _differences(before.get(key), now.get(key), inner)
    elif before != now:
        yield name, before, now
