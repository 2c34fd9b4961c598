"""Runs with simulators in worker processes: deaths and Ctrl-C, and no process is left."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from idaq.envs import FAMILIES
from tests.host_fakes import Walk, all_gone, await_pids, is_alive, pids_in
from tests.program import JOB, Outcome, Program, finish, results

# Sets of ML1 in name only: they have a preset, and here a quick simulator.
NAME, OTHER = "ml1/push", "ml1/reach"
COMMAND = ("run", NAME, *JOB, "--methods", "idaq-return", "expert-context", "--seeds", "1")
COLLECTED = 20  # episodes: two for each of ten tasks
# then two test tasks, with four episodes and with one; and what a shorter budget would have run
ADAPTED = 2 * 4 + 2 * 1 + 2

PROGRAM = """
import signal, sys
import idaq.report.figures
from idaq.cli import main
from idaq.envs import FAMILIES
from tests.host_fakes import Walk

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    idaq.report.figures.write_figures = lambda run: []
    log, seconds, *arguments = sys.argv[1:]
    for name in ("ml1/push", "ml1/reach"):
        FAMILIES.added[name] = Walk(num_tasks=10, log=log, seconds=float(seconds), name=name)
    sys.exit(main(arguments))
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which simulators log their episodes, also in runs of this process."""
    file = tmp_path / "log"
    monkeypatch.setitem(
        FAMILIES.added, NAME, Walk(num_tasks=10, log=str(file), seconds=0.01, name=NAME)
    )
    return file


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, log: Path) -> Start:
    """Start a command in a process group of its own, as a shell does."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)

    def call(*arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(script), str(log), "0.01", *map(str, arguments)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "COLUMNS": "100",
                "TMPDIR": str(tmp_path),  # a killed process cannot remove what it leaves
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    return call


@pytest.fixture
def expected(idaq: Program, log: Path, tmp_path: Path) -> dict[str, str]:
    """The results of an undisturbed run with one worker."""
    outcome = idaq(*COMMAND, "--workers", "1", "--out", tmp_path / "whole")
    assert outcome.code == 0, outcome.err
    assert len(pids_in(log)) == COLLECTED + ADAPTED
    assert len(set(pids_in(log))) == 1
    assert all_gone(pids_in(log))
    log.unlink()
    return results(tmp_path / "whole")


def test_workers_killed_during_a_run(
    idaq: Program, log: Path, tmp_path: Path, expected: dict[str, str]
) -> None:
    """One during collection and one during adaptation; the results do not change."""

    def kill() -> None:
        for moment in (5, COLLECTED + 8):
            os.kill(await_pids(log, moment)[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = idaq(*COMMAND, "--workers", "2", "--out", tmp_path / "killed")
    killer.join()
    assert outcome.code == 0, outcome.err
    assert len(set(pids_in(log))) > 3, "others came in their place"
    assert len(pids_in(log)) > COLLECTED + ADAPTED, "what they were at was run again"
    assert results(tmp_path / "killed") == expected
    assert all_gone(pids_in(log))


def test_the_program_killed_and_resumed(
    idaq: Program, start: Start, log: Path, tmp_path: Path, expected: dict[str, str]
) -> None:
    """Its workers end with it; an unfinished dataset is dropped."""
    place = tmp_path / "killed"
    command = (*COMMAND, "--workers", "2", "--resume", "--out", place)
    process = start(*command)
    await_pids(log, 6)
    process.kill()
    assert finish(process).code == -signal.SIGKILL
    assert all_gone(pids_in(log))
    assert not (place / "data").exists()
    outcome = idaq(*command)
    assert outcome.code == 0, outcome.err
    assert results(place) == expected
    assert not list(place.rglob(".*.tmp-*"))


def interrupted(process: subprocess.Popen[str], by: signal.Signals = signal.SIGINT) -> Outcome:
    """Press Ctrl-C: as on a terminal, it reaches the whole group of processes."""
    os.killpg(process.pid, by)
    outcome = finish(process)
    assert outcome.code == 128 + by, outcome
    assert outcome.out == ""
    assert "go on with the same command and --resume" in outcome.err
    assert "Traceback" not in outcome.err
    return outcome


def spawned_by(pid: int) -> list[int]:
    """The worker processes among the children of a process."""
    workers = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # others come and go
            for child in (thread / "children").read_text().split():
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    workers.append(int(child))
    return workers


def listens(pid: int) -> bool:
    """Whether Python has set its Ctrl-C handler in a process, which it does early."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) & 1 << (signal.SIGINT - 1))


@pytest.mark.parametrize("started", [is_alive, listens])
def test_an_interrupt_while_workers_start(
    start: Start, log: Path, tmp_path: Path, started: Callable[[int], bool]
) -> None:
    """While one is being started, and before one has run a line of the program."""
    process = start(*COMMAND, "--workers", "2", "--out", tmp_path / "run")
    end = time.monotonic() + 60
    while not any(map(started, workers := spawned_by(process.pid))):
        assert time.monotonic() < end
        assert process.poll() is None
    interrupted(process)
    assert all_gone(workers)
    assert pids_in(log) == []


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_workers_work(
    start: Start, log: Path, tmp_path: Path, by: signal.Signals
) -> None:
    place = tmp_path / "run"
    process = start(*COMMAND, "--trajectories", "1000", "--workers", "2", "--out", place)
    workers = set(await_pids(log, 6))
    assert all(map(is_alive, workers))
    interrupted(process, by)
    assert all_gone(pids_in(log))
    assert not list(tmp_path.glob("idaq-*")), "no temporary directory either"
    assert [file.name for file in place.iterdir() if file.name != ".lock"] == ["run.json"]


def test_an_interrupt_of_several_families(start: Start, log: Path, tmp_path: Path) -> None:
    """One trains without end while the other's data is collected."""
    command = ("run", NAME, OTHER, *COMMAND[2:], "--updates", "100000000")
    place = tmp_path / "runs"
    process = start(*command, "--workers", "1", "--out", place)
    await_pids(log, COLLECTED + 5)
    interrupted(process)
    assert all_gone(pids_in(log))
    assert (place / NAME / "data").is_dir()
    assert not (place / OTHER / "data").exists()
    assert not list(place.rglob(".*.tmp-*"))
