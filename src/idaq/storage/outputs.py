"""Files that users name: where one may be written, and what it may replace.

A file may be new, or replace one of the same kind whose content shows that idaq made it. Devices,
links, directories and all other files are refused. In a directory of results (a run, a dataset or
behaviour policies) a file must also have the ending of its kind and a name that means nothing
there. A run's own pictures, in figures/ and videos/, are known by their place instead.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from idaq.errors import IdaqError
from idaq.storage.atomic import atomic_file, writing
from idaq.storage.layout import KEPT_BY, POLICIES, RUN

HEAD_BYTES = 4096  # where a page or a picture says who made it
MAX_JSON_BYTES = 1 << 24
GENERATOR = "idaq"  # what every file calls the program that made it
PAGE_MARK = f'<meta name="generator" content="{GENERATOR}">'
SPEED_MARK = {"generator": f"{GENERATOR} bench speed"}
PICTURE_MARK = {"Software": GENERATOR}  # a text chunk of a PNG
_PICTURE_START = b"\x89PNG\r\n\x1a\n"
_PICTURE_CHUNK = f"tEXtSoftware\0{GENERATOR}".encode()
_VIDEO_COMMENT = bytes([0x21, 0xFE, len(GENERATOR)]) + GENERATOR.encode()


@dataclass(frozen=True)
class Kind:
    """A kind of file, and how its content shows that idaq made it."""

    name: str
    ending: str
    is_ours: Callable[[Path], bool]
    place: str = ""  # where runs keep theirs, as in `idaq.storage.layout`


def _is_page(file: Path) -> bool:
    return PAGE_MARK.encode() in _head(file)


def _is_picture(file: Path) -> bool:
    head = _head(file)
    return head.startswith(_PICTURE_START) and _PICTURE_CHUNK in head


def _is_video(file: Path) -> bool:
    head = _head(file)
    return head.startswith(b"GIF8") and _VIDEO_COMMENT in head


def _is_speed(file: Path) -> bool:
    if file.stat().st_size > MAX_JSON_BYTES:
        return False
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.items() >= SPEED_MARK.items()


def _head(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(HEAD_BYTES)


PAGE = Kind("page of idaq's", ".html", _is_page)
PICTURE = Kind("figure of idaq's", ".png", _is_picture, "figures/*.png")
VIDEO = Kind("video of idaq's", ".gif", _is_video, "videos/*.gif")
SPEED = Kind("output of `idaq bench speed`", ".json", _is_speed)


@contextmanager
def output_file(path: Path, kind: Kind) -> Iterator[Path]:
    """Yield a temporary path to write to; it becomes `path` when the block ends well."""
    check_output(path, kind)
    with atomic_file(path) as temporary:
        yield temporary


def check_output(path: Path, kind: Kind) -> None:
    """Refuse a path that must not be written to; call it before long work, too."""
    remedy = f"Name a new file that ends in {kind.ending}."
    if path.name in ("", ".."):  # of "", ".", "/" and the like
        raise IdaqError(f"'{path}' names no file.", remedy)
    with writing(path):
        meaning = _meaning(path, kind, remedy)
        if meaning not in ("", kind.place):
            raise IdaqError(
                f"'{path}' cannot be a {kind.name}: a run keeps {meaning} there.",
                "Choose another name or directory.",
            )
        _check_replaced(path, kind, remedy, is_own_place=bool(meaning))


def _meaning(path: Path, kind: Kind, remedy: str) -> str:
    """What the path matches among the names of the results that it lies in; "" if nothing."""
    place = Path(os.path.realpath(path.parent)) / path.name
    for directory in place.parents:
        if not any((directory / name).is_file() for name in KEPT_BY):
            continue
        if place.suffix.lower() != kind.ending:
            raise IdaqError(
                f"'{path}' cannot be a {kind.name}: it lies among the results in '{directory}'.",
                remedy,
            )
        inside = place.relative_to(directory)
        return next((name for name in (*RUN.files, *POLICIES.files) if inside.match(name)), "")
    return ""


def _check_replaced(path: Path, kind: Kind, remedy: str, *, is_own_place: bool) -> None:
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):  # making its directory will report the latter
        return
    if stat.S_ISDIR(mode):
        raise IdaqError(f"'{path}' is a directory.", remedy)
    if not stat.S_ISREG(mode):
        what = "a link" if stat.S_ISLNK(mode) else "no regular file"
        raise IdaqError(f"'{path}' is {what} and is not replaced.", remedy)
    if not is_own_place and not kind.is_ours(path):
        raise IdaqError(
            f"'{path}' exists already and is no {kind.name}.",
            f"{remedy} Or remove that one first.",
        )
