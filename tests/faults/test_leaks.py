"""No leak: agents know nothing about test tasks, and adapters do not know the task."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from idaq.envs import FAMILIES
from idaq.envs.family import split_tasks
from idaq.envs.point_robot import NUM_TASKS, PointRobot
from tests.program import (
    EPISODES,
    METHODS,
    TRAINING,
    Program,
    arrays_of,
    change_arrays,
    change_json,
    results,
)


@dataclass(frozen=True)
class Permuted(PointRobot):
    """Point-Robot whose `task_params` are not the goals of its dynamics."""

    @property
    def task_params(self) -> NDArray[np.float32]:
        order = np.random.default_rng(0).permutation(NUM_TASKS)
        permuted: NDArray[np.float32] = super().task_params[order]
        return permuted


def train(idaq: Program, data: Path, out: Path) -> dict[str, str]:
    """Train one seed, and return the contents of its files."""
    outcome = idaq("train", "--data", data, "--out", out, "--seeds", "1", *TRAINING)
    assert outcome.code == 0, outcome.err
    return results(out / "seeds")


def adapt(idaq: Program, run: Path) -> dict[str, str]:
    """Adapt with every method, and return the contents of the results."""
    for method in METHODS:
        outcome = idaq("adapt", run, "--method", method, *EPISODES)
        assert outcome.code == 0, outcome.err
    return results(run / "adapt")


def rows_of(data: Path, tasks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows of a dataset belong to these tasks."""
    arrays = arrays_of(data)
    lengths = np.diff(arrays["episode_offsets"])
    return np.repeat(np.isin(arrays["episode_task"], tasks), lengths)


def spoil(data: Path, rows: NDArray[np.bool_]) -> None:
    """Put large but finite garbage into some rows."""
    arrays, rng = arrays_of(data), np.random.default_rng(0)
    for name in ("observations", "actions", "rewards", "next_observations"):
        garbage = 1e6 * rng.normal(size=arrays[name].shape)
        where = rows.reshape(-1, *[1] * (arrays[name].ndim - 1))
        arrays[name] = np.where(where, garbage, arrays[name]).astype(np.float32)
    ends = np.isin(np.arange(len(rows)), arrays["episode_offsets"][1:] - 1)
    arrays["terminated"] = arrays["terminated"] ^ (rows & ends)
    del arrays["episode_offsets"], arrays["episode_task"]
    change_arrays(data, **arrays)


def test_task_parameters_are_not_read(
    idaq: Program, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = train(idaq, data, tmp_path / "a")
    adapted = adapt(idaq, tmp_path / "a")
    shutil.move(data, tmp_path / "original")
    shutil.copytree(tmp_path / "original", data)
    family = Permuted("dense")
    assert not np.array_equal(family.task_params, PointRobot("dense").task_params)
    change_json(data / "metadata.json", "task_params", to=family.task_params.tolist())
    monkeypatch.setitem(FAMILIES.added, "point-robot", family)
    assert train(idaq, data, tmp_path / "b") == agents
    assert adapt(idaq, tmp_path / "b") == adapted


def test_data_of_test_tasks_leaves_no_trace_in_agents(
    idaq: Program, data: Path, tmp_path: Path
) -> None:
    agents = train(idaq, data, tmp_path / "a")
    spoil(data, rows_of(data, split_tasks(NUM_TASKS, 0).test))
    assert train(idaq, data, tmp_path / "b") == agents


def test_adaptation_reads_no_data(idaq: Program, data: Path, tmp_path: Path) -> None:
    """Only expert context reads it."""
    train(idaq, data, tmp_path / "run")
    shutil.rmtree(data)
    adapted = ("adapt", tmp_path / "run", "--method", METHODS[0], *EPISODES)
    assert idaq(*adapted).code == 0
    outcome = idaq("adapt", tmp_path / "run", "--method", "expert-context", *EPISODES)
    assert outcome.code == 2
    assert str(data) in outcome.err


def test_data_of_training_tasks_does(idaq: Program, data: Path, tmp_path: Path) -> None:
    """Data of one training task does leave a trace, so the test of test tasks would notice."""
    agents = train(idaq, data, tmp_path / "a")
    spoil(data, rows_of(data, split_tasks(NUM_TASKS, 0).train[:1]))
    assert train(idaq, data, tmp_path / "b") != agents
    before, after = (
        load_file(tmp_path / name / "seeds/seed-000/agent.safetensors") for name in "ab"
    )
    assert before.keys() == after.keys()
    for part in (".prior", ".normaliser.obs_mean", ".normaliser.reward_std", ".encoder"):
        names = [name for name in before if name.startswith(part)]
        assert names
        assert any(not np.array_equal(before[name], after[name]) for name in names)


def test_splits_are_the_same_for_every_command(run: Path) -> None:
    for seed in (0, 1):
        split = json.loads((run / f"seeds/seed-{seed:03d}/split.json").read_text())
        assert split["test"] == split_tasks(NUM_TASKS, seed).test.tolist()
