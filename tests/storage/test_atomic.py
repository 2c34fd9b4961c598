"""Files and directories that are whole or absent, and on the disk before they have their name."""

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from idaq.errors import IdaqError
from idaq.storage.atomic import (
    atomic_directory,
    atomic_file,
    is_another_process,
    parents_of,
    remove,
    remove_leftovers,
    write_json,
    writing,
)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes that were synced, in order."""
    found: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        found.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def inode(path: Path) -> int:
    return path.stat().st_ino


def test_a_file_is_synced_before_and_its_directory_after_it_has_its_name(
    tmp_path: Path, synced: list[int]
) -> None:
    write_json(tmp_path / "deep" / "file.json", {"a": 1})
    assert synced == [inode(tmp_path / "deep" / "file.json"), inode(tmp_path / "deep")]


def test_all_files_of_a_directory_are_synced(tmp_path: Path, synced: list[int]) -> None:
    with atomic_directory(tmp_path / "made") as place:
        (place / "one").write_text("1")
        (place / "inner").mkdir()
        (place / "inner" / "two").write_text("2")
        assert not (tmp_path / "made").exists()
    made = tmp_path / "made"
    everything = {inode(made), *(inode(path) for path in made.rglob("*"))}
    assert len(everything) == 4
    assert set(synced[:-1]) == everything
    assert synced[-1] == inode(tmp_path)
    assert list(tmp_path.iterdir()) == [made]


def test_descriptors_are_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    write_json(tmp_path / "file.json", {})
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def fail_at(path: Path) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("interrupted")


def test_an_error_leaves_the_old_file_and_no_new_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "kept").mkdir()
    for path in (tmp_path / "file", tmp_path / "a" / "b" / "file", tmp_path / "kept" / "c" / "f"):
        with pytest.raises(RuntimeError, match="interrupted"):
            fail_at(path)
    assert (tmp_path / "file").read_text() == "old"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "kept"]


def test_directories_that_others_use_are_left(tmp_path: Path) -> None:
    def fails() -> None:
        with parents_of(tmp_path / "a" / "b" / "file"):
            (tmp_path / "a" / "other").write_text("mine")
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        fails()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "other"]


def test_what_the_disk_refuses_is_named(tmp_path: Path) -> None:
    def refuse(error: OSError) -> None:
        with writing(tmp_path / "file"):
            raise error

    with pytest.raises(IdaqError, match=r"'.*/file' cannot be written: No space left on device\."):
        refuse(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with pytest.raises(IdaqError, match=r"cannot be written: something else\. Free some space"):
        refuse(OSError("something else"))
    (tmp_path / "blocked").write_text("a file, not a directory")
    with pytest.raises(IdaqError, match=r"'.*/blocked/file' cannot be written"):
        write_json(tmp_path / "blocked" / "file", {})


def test_json_is_readable_and_holds_numbers_alone(tmp_path: Path) -> None:
    write_json(tmp_path / "file.json", {"b": [1], "a": "ü"})
    text = (tmp_path / "file.json").read_text(encoding="utf-8")
    assert text == json.dumps({"b": [1], "a": "ü"}, indent=2) + "\n"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file.json", {"a": float("nan")})
    assert (tmp_path / "file.json").read_text(encoding="utf-8") == text


# --- What a killed writer left --------------------------------------------------------------


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_whose_number_it_is(dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_another_process(os.getpid())
    assert not is_another_process(dead)
    assert is_another_process(os.getppid())

    def forbidden(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbidden)
    assert is_another_process(dead), "another user's"


def test_leftovers_of_the_dead_are_removed_when_writing_again(tmp_path: Path, dead: int) -> None:
    living, own = os.getppid(), os.getpid()
    kept = [f".file.tmp-{living}", f".other.tmp-{dead}", f"file.tmp-{dead}", f".file.tmp-{dead}x"]
    gone = [f".file.tmp-{dead}", f".file.tmp-{own}"]
    for name in (*kept, *gone):
        (tmp_path / name).write_text("half")
    (tmp_path / "file").write_text("old")
    with atomic_file(tmp_path / "file") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "file").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "file"])


def test_a_leftover_directory_is_removed(tmp_path: Path, dead: int) -> None:
    left = tmp_path / f".made.tmp-{dead}"
    left.mkdir()
    (left / "half").write_text("half")
    remove_leftovers([left, tmp_path / "not there"], stat.S_ISDIR)
    assert list(tmp_path.iterdir()) == []


def test_names_are_no_patterns(tmp_path: Path, dead: int) -> None:
    (tmp_path / f".a1.tmp-{dead}").write_text("of another file")
    (tmp_path / f".a[1].tmp-{dead}").write_text("half")
    write_json(tmp_path / "a[1]", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".a1.tmp-{dead}", "a[1]"]


def test_removing(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "file").write_text("1")
    (tmp_path / "link").symlink_to(tmp_path / "place")
    remove(tmp_path / "link")
    assert (tmp_path / "place" / "file").exists(), "what a link points to is not ours"
    for name in ("place", "place", "nothing"):
        remove(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
