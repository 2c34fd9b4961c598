"""A benchmark that was killed many times ends like one never killed; Ctrl-C ends it cleanly."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from idaq.storage import scratch
from tests.bench.small import MAIN, leftovers, numbers, tiny
from tests.program import Outcome, Program, finish

__all__ = ["tiny"]

NAME = "mujoco-expert-context"
MARK = f"IDAQ_TEST_{os.getpid()}"  # in the environment of every process that the tests start
COMMAND = ("bench", "run", NAME, "--scale", "smoke", "--only", "focal", "--workers", "1")
TABLE = ("bench", "table", NAME, "--scale", "smoke", "--only", "focal", "--format", "csv")
MOMENTS = (  # the process is killed when this appears; in the order of a benchmark
    "data/.*.lock",
    "data/.*.tmp-*",
    "data/*.json",
    "cells/*/run.json",
    "cells/*/train/*.safetensors",
    "cells/*/seeds/seed-001/agent.safetensors",
    "cells/*/adapt/idaq-return/seed-000.npz",
    "cells/*/adapt/expert-context/config.json",
    "cells/*/summary.json",
)


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start the program with a tiny scale, as a process of its own."""
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    root = Path(__file__).resolve().parents[2]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path]), MARK: "1"},
    )


def orphans() -> list[Path]:
    """Living processes that come from a command of these tests."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if MARK.encode() in environment.read_bytes():
                found.append(environment.parent)
    return found


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A directory for the temporary files of these processes alone: others are killed elsewhere."""
    with tempfile.TemporaryDirectory(prefix="killed-") as place:
        monkeypatch.setenv("TMPDIR", place)
        yield


@pytest.fixture
def whole(idaq: Program, tiny: None, tmp_path: Path) -> tuple[dict[str, bytes], Outcome]:
    """The results and the table of an undisturbed benchmark."""
    place = tmp_path / "whole"
    assert idaq(*COMMAND, "--results", place).code == 0
    return numbers(place), idaq(*TABLE, "--results", place)


def complete(idaq: Program, place: Path, whole: tuple[dict[str, bytes], Outcome]) -> None:
    """Run the benchmark to the end, and compare."""
    outcome = finish(start(*COMMAND, "--results", place))
    assert outcome.code == 0, outcome.err
    assert numbers(place) == whole[0]
    assert idaq(*TABLE, "--results", place).out == whole[1].out
    assert not list(leftovers(place))
    left = list(Path(os.environ["TMPDIR"]).glob(f"idaq-*/{scratch.MARK}"))
    assert not left, "directories of pools that were killed"
    assert orphans() == []


def test_killed_at_every_stage(
    idaq: Program, tmp_path: Path, whole: tuple[dict[str, bytes], Outcome]
) -> None:
    place = tmp_path / "killed"
    for moment in MOMENTS:
        process = start(*COMMAND, "--results", place)
        while process.poll() is None and not list(place.glob(moment)):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        assert finish(process).code in (-signal.SIGKILL, 0)
    complete(idaq, place, whole)


@pytest.mark.slow
def test_fifty_kills_at_random(
    idaq: Program, tmp_path: Path, whole: tuple[dict[str, bytes], Outcome]
) -> None:
    rng = random.Random(0)
    place = tmp_path / "killed"
    ended = 0
    for _ in range(50):
        process = start(*COMMAND, "--results", place)
        time.sleep(rng.uniform(0.3, 9.0))
        process.send_signal(signal.SIGKILL)
        ended += finish(process).code == 0
    complete(idaq, place, whole)
    assert ended < 50, "some were killed"


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_says_how_to_go_on(
    idaq: Program, tmp_path: Path, whole: tuple[dict[str, bytes], Outcome], by: signal.Signals
) -> None:
    place = tmp_path / "stopped"
    process = start(*COMMAND, "--results", place)
    while process.poll() is None and not list(place.glob("cells/*/train/*.safetensors")):
        time.sleep(0.001)
    process.send_signal(by)
    outcome = finish(process)
    assert outcome.code in (128 + by, 0), outcome
    assert "Traceback" not in outcome.err
    if outcome.code:
        again = f"idaq bench run {NAME} --scale smoke --results {place} --only focal"
        assert f"go on with `{again}`" in outcome.err
    assert not list(place.glob("errors/*")), "to be stopped is no failure"
    complete(idaq, place, whole)
