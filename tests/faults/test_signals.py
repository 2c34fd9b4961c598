"""Ctrl-C and SIGTERM, and two processes in one directory."""

import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from idaq.engine.meta_test import evaluate
from idaq.runs.directory import RunDir
from idaq.storage.metrics import MetricsLog
from tests.faults.test_kill import updates_done
from tests.program import EPISODES, METHODS, RUN, Program, finish, results, start, tree


def test_two_processes_and_an_interrupt(idaq: Program, tmp_path: Path) -> None:
    place = tmp_path / "run"
    endless = (*RUN, "--updates", "100000000", "--seeds", "1", "--resume", "--out", place)
    process = start(*endless)
    try:
        while process.poll() is None and not list(place.glob("train/*.safetensors")):
            time.sleep(0.01)
        second = idaq(*endless)
        process.send_signal(signal.SIGINT)
        process.wait(60)
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


@pytest.fixture
def in_the_foreground() -> Iterator[None]:
    """The background of a shell ignores Ctrl-C, and what runs there keeps to that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def at_update(number: int, act: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Do something when a training has come so far."""
    write = MetricsLog.write

    def write_and_act(log: MetricsLog, update: int, values: dict[str, float]) -> None:
        write(log, update, values)
        if update == number:
            act()

    patch.setattr(MetricsLog, "write", write_and_act)


@pytest.mark.usefixtures("in_the_foreground")
def test_an_interrupt_that_python_drops(
    idaq: Program, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a callback at a garbage collection; the training ends all the same, and saves."""

    def press(phase: str, info: object) -> None:
        gc.callbacks.remove(press)
        signal.raise_signal(signal.SIGINT)

    def collect_garbage() -> None:
        gc.callbacks.append(press)
        gc.collect()

    place = tmp_path / "new"
    command = (*RUN, "--seeds", "2", "--out", place)
    with monkeypatch.context() as patch:
        at_update(3, collect_garbage, patch)
        outcome = idaq(*command)
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert "--resume" in outcome.err
    assert updates_done(place) == 3, "and not 2, where a checkpoint was due"
    assert idaq(*command, "--resume").code == 0
    assert results(place) == results(run)


def test_grace_after_sigterm(
    idaq: Program, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training saves its state before it ends, and ends bit-identical when it is resumed."""
    place = tmp_path / "new"
    command = (*RUN, "--seeds", "2", "--out", place)
    with monkeypatch.context() as patch:
        at_update(3, lambda: signal.raise_signal(signal.SIGTERM), patch)
        outcome = idaq(*command)
    assert outcome.code == 143
    assert "go on with the same command and --resume" in outcome.err
    assert updates_done(place) == 3
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert idaq(*command, "--resume").code == 0
    assert results(place) == results(run)


@pytest.mark.parametrize("grace", ["0", "0.2"])
def test_the_end_of_grace(
    idaq: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grace: str
) -> None:
    """Whatever is at work then is interrupted."""

    def terminate() -> None:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(60)

    at_update(1, terminate, monkeypatch)
    started = time.monotonic()
    outcome = idaq(*RUN, "--seeds", "1", "--grace", grace, "--out", tmp_path / "run")
    assert outcome.code == 143
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("grace", ["-1", "nan", "inf"])
def test_grace_that_makes_no_sense(refused: Program, tmp_path: Path, grace: str) -> None:
    refused(*RUN, "--out", tmp_path / "run", "--grace", grace, names=("--grace",))


def test_sigterm_ends_a_process(tmp_path: Path) -> None:
    place = tmp_path / "run"
    process = start(*RUN, "--updates", "100000000", "--seeds", "1", "--out", place)
    while process.poll() is None and not list(place.glob("train/*.safetensors")):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    outcome = finish(process)
    assert outcome.code == 143, outcome
    assert "go on with the same command and --resume" in outcome.err
    assert "Traceback" not in outcome.err
    assert not list(place.rglob(".*.tmp-*"))


def test_an_ignored_interrupt_stays_ignored(idaq: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a command that a shell runs in its background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        monkeypatch.setattr(
            "idaq.cli.list.List.run", lambda command: os.kill(os.getpid(), signal.SIGINT)
        )
        assert idaq("list").code == 0
    finally:
        signal.signal(signal.SIGINT, before)


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
