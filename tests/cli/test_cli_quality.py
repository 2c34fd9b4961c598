"""Behaviour policies and qualities on the command line, and Cheetah-Vel from data to results."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from idaq.storage.dataset import open_dataset
from tests.behaviour.setting import SETTINGS
from tests.program import JOB, TRAINING, Program

CHEETAH = ("run", "cheetah-vel", *JOB, "--methods", "idaq-return", "expert-context")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli") / "policies"


@pytest.fixture
def policies(idaq: Program, trained: Path) -> Path:
    """Policies of Point-Robot, trained by the command."""
    outcome = idaq("behaviour", "point-robot", *SETTINGS, "--resume", "--out", trained, "--json")
    assert outcome.code == 0, outcome.err
    rows = json.loads(outcome.out)
    assert [row["updates"] for row in rows] == [0, 4, 12, 20]
    assert f"--policies {trained}" in outcome.err
    return trained


def test_collect_with_trained_policies(idaq: Program, policies: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    command = ("collect", "point-robot", "--trajectories", "4", "--out", out)
    outcome = idaq(*command, "--quality", "replay", "--policies", policies)
    assert outcome.code == 0, outcome.err
    assert "paper" not in outcome.out, "it reports no such data"
    dataset = open_dataset(out)
    assert dataset.metadata["quality"] == "replay"
    assert dataset.metadata["behaviour"]["kind"] == "ladder"


def test_a_run_remembers_its_quality(
    idaq: Program, refused: Program, policies: Path, tmp_path: Path
) -> None:
    job = ("run", "point-robot", *JOB, "--methods", "idaq-return", "--seeds", "1")
    command = (*job, "--quality", "replay", "--policies", policies, "--out", tmp_path / "run")
    outcome = idaq(*command)
    assert outcome.code == 0, outcome.err
    assert "replay data" in outcome.out
    assert "replay quality" in outcome.err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["quality"] == "replay"
    again = idaq(*command, "--resume")
    assert again.code == 0, again.err
    other = (*job, "--resume", "--out", tmp_path / "run")
    refused(*other, names=("data.policies", "data.quality"))
    refused(*other, "--quality", "replay", names=("data.policies",))


def test_directories_by_default(
    idaq: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert idaq("collect", "point-robot", "--trajectories", "1").code == 0
    random = idaq("collect", "point-robot", "--trajectories", "1", "--quality", "random")
    assert random.code == 0
    assert "data/point-robot-random" in random.out
    found = sorted(each.name for each in (tmp_path / "data").iterdir())
    assert found == ["point-robot", "point-robot-random"]


def test_retrain(idaq: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The family's policies are trained first, beside the data; the sparse ones are the same."""
    from idaq.behaviour import training
    from tests.behaviour.setting import CONFIG

    monkeypatch.setattr(training, "behaviour_config", lambda name: CONFIG)
    monkeypatch.chdir(tmp_path)
    command = ("collect", "point-robot-sparse", "--quality", "replay", "--trajectories", "1")
    outcome = idaq(*command, "--retrain")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "policies/point-robot/ladder.json").is_file()
    dataset = open_dataset(tmp_path / "data/point-robot-sparse-replay")
    assert dataset.metadata["behaviour"]["family"] == "point-robot"
    assert dataset.metadata["behaviour"]["rungs"][-1]["updates"] <= 20


def test_what_is_refused(refused: Program, policies: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    collect = ("collect", "ml1/push", *out)
    refused(*collect, "--retrain", names=("ml1/push", "--retrain"))
    refused(*collect, "--policies", policies, names=("'point-robot'", "'ml1/push'"))
    refused(*collect, "--quality", "medium", names=("medium", "idaq behaviour ml1/push"))
    both = ("--retrain", "--policies", policies, "--quality", "medium")
    refused(*collect, *both, names=("--policies",))
    run = ("run", "ml1/push", *JOB, *out)
    refused(*run, "--quality", "medium", names=("medium", "idaq behaviour ml1/push"))
    refused(
        "behaviour",
        "point-robot-sparse",
        *out,
        names=("point-robot-sparse", "Train those of point-robot"),
    )
    refused("behaviour", "point-robot", *out, "--set", "num_rounds=0", names=("num_rounds",))
    refused("behaviour", "point-robot", *out, "--minutes", "-1", names=("--minutes",))
    refused("behaviour", "no-such", *out, names=("no-such",))
    behaviour = ("behaviour", "point-robot", *SETTINGS, "--out", policies)
    refused(*behaviour, names=("--resume",))
    refused(*behaviour, "--resume", "--seed", "1", names=("data.seed",))
    refused(*behaviour, "--resume", "--ship", policies, names=(f"'{policies}' exists",))


def test_mujoco_that_is_not_installed(
    refused: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said before anything is made."""
    monkeypatch.setitem(sys.modules, "mujoco", None)
    out = ("--out", tmp_path / "out")
    refused(*CHEETAH, *out, names=("idaq[mujoco]",))
    refused("collect", "cheetah-vel", *out, names=("idaq[mujoco]",))
    refused("behaviour", "cheetah-vel", *out, names=("idaq[mujoco]",))


# --- Cheetah-Vel ---


def test_cheetah_from_data_to_results(idaq: Program, tmp_path: Path) -> None:
    """Log, train, adapt; stepwise and in one command, with one worker and with two."""
    pytest.importorskip("mujoco")
    run = tmp_path / "run"
    outcome = idaq(*CHEETAH, "--seeds", "1", "--workers", "2", "--out", run, "--json")
    assert outcome.code == 0, outcome.err
    summary = json.loads(outcome.out)
    assert [row["method"] for row in summary["rows"]] == ["idaq-return", "expert-context"]
    data = open_dataset(run / "data")
    assert (data.num_tasks, data.num_episodes, data.num_transitions) == (100, 200, 40_000)
    assert data.metadata["quality"] == "expert"
    assert data.metadata["behaviour"]["family"] == "cheetah-vel"
    assert np.abs(np.asarray(data.arrays["actions"])).max() <= 1.0
    assert not data.arrays["terminated"].any()
    with np.load(run / "adapt/idaq-return/seed-000.npz") as raw:
        assert raw["returns"].shape == (20, 4)

    alone = tmp_path / "data"
    collect = ("collect", "cheetah-vel", "--trajectories", "2", "--workers", "1", "--out", alone)
    outcome = idaq(*collect)
    assert outcome.code == 0, outcome.err
    assert "(paper: -138.29)" in outcome.out
    assert open_dataset(alone).fingerprint == data.fingerprint
    train = ("train", "--data", alone, *TRAINING, "--seeds", "1", "--out", tmp_path / "steps")
    assert idaq(*train).code == 0
    adapt = ("adapt", tmp_path / "steps", "--n-r", "2", "--n-i", "2", "--json")
    outcome = idaq(*adapt)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["rows"][0]["mean"] == summary["rows"][0]["mean"]
