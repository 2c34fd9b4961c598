"""Disks that are full or cannot be written to."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from idaq.cli import main
from tests.faults.injection import injector
from tests.program import EPISODES, METHODS, RUN, Program, results, tree

COMMAND = (*RUN, "--seeds", "1", "--resume")


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """Mount a file system at `place`; skip the test if that is not allowed."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a file system here: {error}")
    try:
        yield
    finally:
        gc.collect()  # the traceback of an error may still hold memory-mapped arrays
        subprocess.run(["umount", str(place)], check=True)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def test_full_at_every_change_to_the_disk(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One clear message, nothing half written, and --resume goes on when there is space."""
    # asking git takes as long as a run
    monkeypatch.setattr("idaq.engine.provenance.git_state", lambda: None)
    whole = tmp_path / "whole"
    assert main([*COMMAND, "--out", str(whole)]) == 0
    expected = results(whole)
    for moment in range(1, 1000):
        place = tmp_path / f"full-{moment}"
        capsys.readouterr()
        with injector.failing(place, "full", at=moment):
            code = main([*COMMAND, "--out", str(place)])
        if not injector.failed:
            assert code == 0
            break
        error = capsys.readouterr().err.splitlines()[-1]
        assert code == 2
        assert error.startswith(f"idaq: '{place}")
        assert "No space left on device" in error
        assert not list(place.rglob(".*.tmp-*")), "nothing is half written"
        assert not place.exists() or (place / "run.json").exists(), "no directory without a run"
        if moment % 4 == 0:
            assert main([*COMMAND, "--out", str(place)]) == 0
            assert results(place) == expected, f"full at change {moment}"
    assert moment > 30


@pytest.mark.parametrize("size", ["4k", "16k", "60k", "100k", "140k", "160k", "180k", "200k"])
def test_a_small_disk(idaq: Program, run: Path, tmp_path: Path, size: str) -> None:
    """The same on a real file system, where a file may be cut off anywhere."""
    disk = tmp_path / "disk"
    with mounted(disk, f"size={size}"):
        place = disk / "runs" / "small"
        command = (*RUN, "--seeds", "2", "--resume", "--out", place)
        outcome = idaq(*command)
        assert outcome.code == 2
        assert "Traceback" not in outcome.err
        assert str(disk) in outcome.err.splitlines()[-1]
        assert not list(disk.rglob(".*.tmp-*"))
        remount(disk, "size=64m")
        assert idaq(*command).code == 0
        assert results(place) == results(run)


@pytest.mark.parametrize("files", [2, 3, 4])
def test_a_disk_without_room_for_a_run(idaq: Program, tmp_path: Path, files: int) -> None:
    """A run that cannot begin leaves nothing, not even a directory."""
    disk = tmp_path / "disk"
    with mounted(disk, f"nr_inodes={files}"):
        outcome = idaq(*RUN, "--out", disk / "runs" / "small")
        assert outcome.code == 2
        assert str(disk / "runs" / "small") in outcome.err
        assert "No space left on device" in outcome.err
        assert tree(disk) == {}


def test_a_small_disk_for_a_dataset(idaq: Program, data: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "size=40k"):
        collect = ("collect", "point-robot", "--trajectories", "2", "--out", disk / "a" / "b")
        outcome = idaq(*collect)
        assert outcome.code == 2
        assert str(disk / "a" / "b") in outcome.err
        assert tree(disk) == {}
        remount(disk, "size=64m")
        assert idaq(*collect).code == 0
        assert results(disk / "a" / "b") == results(data)


def test_a_disk_that_is_read_only(idaq: Program, data: Path, run: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "size=64m"):
        idaq("collect", "point-robot", "--trajectories", "2", "--out", disk / "data")
        finished = disk / "run"
        assert idaq(*RUN, "--seeds", "1", "--out", finished).code == 0
        remount(disk, "ro")
        before = tree(disk)
        for command in (
            (*RUN, "--out", disk / "new" / "run"),
            (*COMMAND, "--out", finished),
            ("collect", "point-robot", "--out", disk / "new" / "data"),
            ("train", "--data", data, "--out", disk / "new"),
            ("adapt", finished, "--method", METHODS[0], "--name", "again", *EPISODES),
            ("report", finished),
        ):
            outcome = idaq(*command)
            assert outcome.code == 2
            assert "Read-only file system" in outcome.err
            assert str(disk) in outcome.err
            assert "Traceback" not in outcome.err
        assert tree(disk) == before
        assert idaq(*RUN[:2], "--out", finished).code == 2, "it says that there is a run"


@pytest.mark.parametrize("place", ["/proc/idaq", "/dev/null/idaq", "/dev/full"])
def test_a_place_that_cannot_be(idaq: Program, data: Path, place: str) -> None:
    for command in (
        (*RUN, "--out", place),
        ("collect", "point-robot", "--out", place),
        ("train", "--data", data, "--out", place),
    ):
        outcome = idaq(*command)
        assert outcome.code == 2
        assert place in outcome.err
        assert "Traceback" not in outcome.err


def test_the_summary_cannot_be_printed(run: Path) -> None:
    """On a full device it fails with a message; a pipe that is closed early is no mistake."""
    program = [sys.executable, "-m", "idaq.cli", "report", str(run), "--json"]
    script = "import idaq.report.figures as f; f.write_figures = lambda run: []; "
    quick = [sys.executable, "-c", script + "import sys, idaq.cli; sys.exit(idaq.cli.main())"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*quick, *program[3:]], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    command = f"{' '.join(program)} | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout == "{"
    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr
