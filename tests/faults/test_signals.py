"""Ctrl-C, and two processes in one directory."""

import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from idaq.engine.meta_test import evaluate
from idaq.runs.directory import RunDir
from tests.program import EPISODES, METHODS, RUN, Program, finish, results, start, tree


def test_two_processes_and_an_interrupt(idaq: Program, tmp_path: Path) -> None:
    place = tmp_path / "run"
    endless = (*RUN, "--updates", "100000000", "--seeds", "1", "--resume", "--out", place)
    process = start(*endless)
    try:
        while process.poll() is None and not list(place.glob("train/*.safetensors")):
            time.sleep(0.01)
        second = idaq(*endless)
        for _ in range(5):  # one that arrives in a callback of JAX may get lost
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
                break
    finally:
        first = finish(process)
    assert second.code == 2
    assert second.err.startswith(f"idaq: Another process is working in '{place}'.")
    assert first.code == 130, first
    assert first.out == ""
    assert "go on with the same command and --resume" in first.err
    assert "Traceback" not in first.err
    assert not list(place.rglob(".*.tmp-*"))
    assert list(place.glob("train/*.safetensors"))


def test_a_directory_in_use(refused: Program, run: Path, tmp_path: Path) -> None:
    with RunDir(run).locked():
        names = ("Another process", run)
        refused(*RUN, "--seeds", "2", "--out", run, "--resume", names=names)
        refused("adapt", run, "--method", METHODS[0], "--name", "x", *EPISODES, names=names)


def test_the_slower_of_two_starts(idaq: Program, tmp_path: Path) -> None:
    """Both see no run, and one begins; the other one changes and removes nothing."""
    place = RunDir(tmp_path / "run")
    with place.locked():
        before = tree(tmp_path)
        outcome = idaq(*RUN, "--out", place.path)
        assert outcome.code == 2
        assert "Another process" in outcome.err
        assert tree(tmp_path) == before
    assert tree(place.path) == {}, "a lock without a run is cleared away"


def test_interrupted_and_resumed(
    idaq: Program, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C during adaptation, finished results stay, and --resume adds the rest."""
    place, calls = tmp_path / "new", []

    def interrupted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(*arguments, **options)

    monkeypatch.setattr("idaq.runs.adapt_stage.evaluate", interrupted)
    command = (*RUN, "--seeds", "2", "--out", place)
    outcome = idaq(*command)
    assert outcome.code == 130
    assert "--resume" in outcome.err
    assert idaq(*command, "--resume").code == 0
    assert results(place) == results(run)


def test_interrupt_without_anything_to_resume(
    idaq: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("idaq.behaviour.collect._expert_episodes", interrupted)
    outcome = idaq("collect", "point-robot", "--out", tmp_path / "deep" / "data")
    assert outcome.code == 130
    assert outcome.err == "\nidaq: stopped\n"
    assert tree(tmp_path) == {}
