"""Directories below $TMPDIR: those that killed processes left are removed, and nothing else."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from idaq.engine.pool import WorkerPool
from idaq.storage import scratch
from idaq.storage.scratch import MARK, Scratch, remove_abandoned, remove_if_abandoned
from tests.host_fakes import all_gone, await_pids
from tests.program import tree

KILLED = """
import os, signal
from idaq.storage.scratch import Scratch
made = Scratch()
(made.path / "agent").write_text("weights")
print(made.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
FORKED = """
import os
from idaq.storage.scratch import Scratch
made = Scratch()
if os.fork() == 0:
    raise SystemExit  # a copy of the process that ends as processes do
os.wait()
assert made.path.is_dir()
print(made.path, flush=True)
"""
POOL = """
import sys
from idaq.engine.pool import WorkerPool
from tests.host_fakes import Waits

if __name__ == "__main__":
    pool = WorkerPool(2)
    pool.share_agent({})
    list(pool.results([Waits(sys.argv[1]), Waits(sys.argv[1])]))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A $TMPDIR of its own, for this process and those that it starts."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return place


def run(script: str) -> str:
    """What a script prints, whatever becomes of it."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


@pytest.fixture
def abandoned(place: Path) -> Path:
    """What a killed process left."""
    left = Path(run(KILLED))
    assert sorted(file.name for file in left.iterdir()) == [MARK, "agent"]
    return left


def test_a_directory_ends_when_it_is_closed(place: Path) -> None:
    made = Scratch()
    assert made.path.parent == place
    made.close()
    assert not made.path.exists()
    made.close()


def test_a_directory_ends_with_its_process_and_not_with_a_copy_of_it(place: Path) -> None:
    assert run(FORKED)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["idaq-2024-results", "idaq-²-x", "idaq-2147483648-x", "idaq-999999999-pool", "idaq-x"]
)
def test_directories_of_users_stay(place: Path, name: str) -> None:
    """Whatever they are called; also one that has a file of the mark's name, or its words."""
    for directory in (place / name, place / f"{name}-marked", place / f"{name}-copied"):
        (directory / "deep").mkdir(parents=True)
        (directory / "deep" / "thesis").write_text("years of work")
    (place / f"{name}-marked" / MARK).write_text("mine")
    made = Scratch()
    shutil.copy(made.path / MARK, place / f"{name}-copied" / MARK)
    made.close()
    before = tree(place)
    WorkerPool(1).close()
    assert tree(place) == before


def test_what_a_killed_process_left_is_removed(place: Path, abandoned: Path) -> None:
    with WorkerPool(1):
        assert not abandoned.exists()


def test_what_another_process_holds_stays(place: Path) -> None:
    """A process of another container has a number that means nothing here."""
    living = Scratch()
    before = tree(place)
    for number in (1, 999_999_999):
        alias = place / f"idaq-{number}-elsewhere"
        living.path.rename(alias)
        (alias / MARK).write_bytes(scratch._words(alias))  # as if made under that name
        remove_abandoned()
        assert (alias / MARK).is_file()
        alias.rename(living.path)
    assert tree(place).keys() == before.keys()
    living.close()


def test_what_another_user_owns_stays(
    place: Path, abandoned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    remove_abandoned()
    assert (abandoned / "agent").is_file()


def test_links_are_not_followed(place: Path, abandoned: Path, tmp_path: Path) -> None:
    """Neither one to an abandoned directory nor one inside it."""
    elsewhere, precious = tmp_path / "elsewhere", tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").write_text("years of work")
    (abandoned / "link").symlink_to(precious)
    (elsewhere / abandoned.name).parent.mkdir()
    abandoned.rename(elsewhere / abandoned.name)
    abandoned.symlink_to(elsewhere / abandoned.name)
    remove_abandoned()
    assert (elsewhere / abandoned.name / "agent").is_file()
    remove_if_abandoned(elsewhere / abandoned.name)
    assert list(elsewhere.iterdir()) == []
    assert (precious / "thesis").is_file()


@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
def test_a_mark_that_is_no_file(place: Path, abandoned: Path, kind: str) -> None:
    (abandoned / MARK).rename(place / "mark")
    if kind == "pipe":
        os.mkfifo(abandoned / MARK)
    elif kind == "link":
        (abandoned / MARK).symlink_to(place / "mark")
    else:
        (abandoned / MARK).mkdir()
    remove_abandoned()
    assert (abandoned / "agent").is_file()


def test_a_removal_that_is_cut_short_is_taken_up(
    place: Path, abandoned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is inside goes first, directories too; the mark is the last to go."""
    (abandoned / "deep" / "deeper").mkdir(parents=True)
    rmtree = shutil.rmtree

    def cut_short(path: Path, ignore_errors: bool) -> None:
        if path != abandoned:
            rmtree(path, ignore_errors)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", cut_short)
        remove_abandoned()
    assert [file.name for file in abandoned.iterdir()] == [MARK]
    remove_abandoned()
    assert not abandoned.exists()


def test_workers_of_a_killed_parent_remove_its_directory(place: Path, tmp_path: Path) -> None:
    """They hold nothing themselves that would keep it."""
    program, log = tmp_path / "program.py", tmp_path / "pids"
    program.write_text(POOL)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, str(program), str(log)], env=environment)
    workers = await_pids(log, 2)
    (directory,) = place.glob("idaq-*")
    (place / "idaq-2024-results").mkdir()
    remove_abandoned()
    assert len(list(directory.iterdir())) == 2, "a mark and an agent, of a living pool"
    process.kill()
    process.wait(30.0)
    assert all_gone(workers)
    assert [left.name for left in place.glob("idaq-*")] == ["idaq-2024-results"]
