"""A run that was killed at any moment and resumed ends like one never killed."""

import json
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from safetensors import safe_open

from idaq.cli import main
from tests.faults.injection import Death, injector
from tests.program import RUN, Program, finish, results, start

COMMAND = (*RUN, "--seeds", "2", "--resume")
MOMENTS = (  # the process is killed when this appears; in the order of a run
    "run.json",
    ".data.tmp-*",
    "data/metadata.json",
    "train/seeds-000-000.safetensors",
    "seeds/seed-000/agent.safetensors",
    "seeds/seed-001/metrics.jsonl",
    "adapt/idaq-prediction-error/seed-000.npz",
    "adapt/expert-context/config.json",
    "summary.json",
)


def kill_at(run: Path, pattern: str) -> None:
    """Start or resume the run, and kill it as soon as a file is there."""
    process = start(*COMMAND, "--out", run)
    while process.poll() is None and not list(run.glob(pattern)):
        time.sleep(0.0005)
    kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    outcome = finish(process)
    assert outcome.code in (-signal.SIGKILL, 0), outcome.err


def test_killed_at_every_change_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the first change, before the second, ..., until the run completes."""
    # asking git takes as long as a run
    monkeypatch.setattr("idaq.engine.provenance.git_state", lambda: None)
    command = [*RUN, "--seeds", "1", "--resume", "--out"]
    whole = tmp_path / "whole"
    assert main([*command, str(whole)]) == 0
    expected = results(whole)
    for moment in range(1, 1000):
        place = tmp_path / f"killed-{moment}"
        try:
            with injector.failing(place, "death", at=moment):
                main([*command, str(place)])
            break
        except Death:
            assert main([*command, str(place)]) == 0
            assert results(place) == expected, f"killed before change {moment}"
    assert moment > 50, "there were changes to be killed at"


def test_killed_again_and_again(run: Path, tmp_path: Path) -> None:
    """Real kills of one run, in each of its stages."""
    place = tmp_path / "killed"
    for moment in MOMENTS[1::2]:
        kill_at(place, moment)
    outcome = finish(start(*COMMAND, "--out", place))
    assert outcome.code == 0, outcome.err
    assert results(place) == results(run)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random(run: Path, tmp_path: Path, seed: int) -> None:
    """Twenty kills of one run, at random times."""
    rng = random.Random(seed)
    place = tmp_path / "killed"
    for _ in range(20):
        process = start(*COMMAND, "--out", place)
        time.sleep(rng.uniform(0.5, 6.0))
        kill(process)
    outcome = finish(start(*COMMAND, "--out", place))
    assert outcome.code == 0, outcome.err
    assert results(place) == results(run)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_once(run: Path, tmp_path: Path, moment: str) -> None:
    place = tmp_path / "killed"
    kill_at(place, moment)
    outcome = finish(start(*COMMAND, "--out", place))
    assert outcome.code == 0, outcome.err
    assert results(place) == results(run)


def updates_done(run: Path) -> int:
    """The number of updates in the checkpoint of seed 0."""
    with safe_open(run / "train/seeds-000-000.safetensors", framework="np") as file:
        return int(json.loads(file.metadata()["idaq"])["updates_done"])


@pytest.mark.parametrize("cut", [1, 30, 10_000])
def test_lines_of_metrics_cut_off(idaq: Program, run: Path, tmp_path: Path, cut: int) -> None:
    """Lines after the checkpoint that are lost or half written are written again."""
    place = tmp_path / "killed"
    metrics = place / "seeds/seed-000/metrics.jsonl"
    for moment in range(1, 1000):  # until something is logged after a checkpoint
        with pytest.raises(Death), injector.failing(place, "death", at=moment):
            main([*COMMAND, "--out", str(place)])
        if "seeds-000-000" in str(list(place.glob("train/seeds*"))):
            kept = f'{{"update": {updates_done(place) + 1}'
            if kept in metrics.read_text():
                break
    text = metrics.read_text()
    metrics.write_text(text[: max(text.index(kept), len(text) - cut)])
    assert idaq(*COMMAND, "--out", place).code == 0
    assert results(place) == results(run)


def test_a_checkpoint_left_behind_is_cleared_away(idaq: Program, run: Path) -> None:
    """As after a kill between writing the agents and removing the checkpoint."""
    before = results(run)
    (run / "train").mkdir()
    (run / "train" / "seeds-000-000.safetensors").write_bytes(b"x")
    (run / "train" / ".seeds-000-000.safetensors.tmp-999999999").write_bytes(b"x")
    (run / ".timing.json.tmp-999999999").write_bytes(b"x")
    (run / ".data.tmp-999999999").mkdir()
    (run / ".data.tmp-999999999" / "rewards.npy").write_bytes(b"x")
    assert idaq(*COMMAND, "--out", run).code == 0
    assert results(run) == before
