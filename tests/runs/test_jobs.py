"""Several jobs at a time: a job that fails does not stop the others, and its error is not lost."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from idaq.config import override
from idaq.envs import FAMILIES
from idaq.errors import IdaqError
from idaq.runs import job as jobs_module
from idaq.runs import train_stage
from idaq.runs.directory import RunDir
from idaq.runs.job import Finished, Job, run_jobs
from idaq.runs.resolve import resolve
from idaq.runs.run import Run
from idaq.runs.train_stage import Seeds
from idaq.settings import RunConfig
from idaq.storage.dataset import Dataset
from tests.host_fakes import InlinePool, Walk
from tests.program import RUN, results

NAMES = ("ml1/push", "ml1/reach", "ml1/sweep")  # in name only, for their preset
METHODS = ("idaq-return", "expert-context")


@pytest.fixture(scope="module", autouse=True)
def _simulators() -> Iterator[None]:
    """Quick simulators under the names of real families, run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name in NAMES:
            patch.setitem(FAMILIES.added, name, Walk(num_tasks=10, name=name))
        patch.setattr(jobs_module, "WorkerPool", InlinePool)
        patch.setattr("idaq.engine.provenance.git_state", lambda: None)
        yield


def small() -> RunConfig:
    """A configuration as small as in the tests of the command line."""
    config = resolve("default", NAMES[0])
    settings = [word for word in RUN if "=" in word]
    settings += ["train.num_updates=3", "adapt.num_reference_episodes=2"]
    settings += ["adapt.num_iterative_episodes=2"]
    for setting in settings:
        config = override(config, setting)
    return config


def job(place: Path, name: str, **changes: Any) -> Job:
    made: dict[str, Any] = {"config": small(), "methods": METHODS, "seeds": Seeds(count=1)}
    made |= {"run": RunDir(place / name), "family": FAMILIES[name], "trajectories": 2}
    return Job(**made | changes)


@pytest.fixture(scope="module")
def whole(_simulators: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every job run alone; tests must not change it."""
    place = tmp_path_factory.mktemp("whole")
    for name in NAMES:
        run_jobs([job(place, name)], quiet=True)
    return place


def error_of(outcomes: list[Finished | IdaqError], failed: str) -> str:
    """The only error among the outcomes, which must be that of the failed job."""
    is_error = [isinstance(outcome, IdaqError) for outcome in outcomes]
    assert is_error == [name == failed for name in NAMES]
    return str(outcomes[NAMES.index(failed)])


def others_are_whole(place: Path, whole: Path, failed: str) -> None:
    for name in NAMES:
        if name != failed:
            assert results(place / name) == results(whole / name)
    assert not (place / failed / "summary.json").exists()


def test_summaries_come_in_order(tmp_path: Path, whole: Path) -> None:
    said: list[str] = []
    jobs = [job(tmp_path / "all", name) for name in NAMES]
    outcomes = run_jobs(jobs, quiet=True, say=said.append)
    for name, outcome in zip(NAMES, outcomes, strict=True):
        assert isinstance(outcome, Finished)
        run, summary = outcome
        assert run.path == tmp_path / "all" / name
        assert summary["family"] == name
        assert results(tmp_path / "all" / name) == results(whole / name)
        assert json.loads((whole / name / "summary.json").read_text()) == summary
        assert f"data of {name}: 10 tasks, 2 trajectories each" in said
        assert [f"adapting {name}: {m}" in said for m in METHODS] == [True, True]


@pytest.mark.parametrize("failing", NAMES)
def test_training_that_diverges(
    tmp_path: Path, whole: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any place in the list; the agents are trained before the failure is found."""

    def train(run: Run, dataset: Dataset, *rest: Any) -> None:
        train_stage.train(run, dataset, *rest)
        if dataset.family == failing:
            raise IdaqError("The training of seed 0 diverged.", "Lower the learning rates.")

    monkeypatch.setattr(jobs_module, "train", train)
    said: list[str] = []
    jobs = [job(tmp_path, name) for name in NAMES]
    outcomes = run_jobs(jobs, quiet=True, say=said.append)
    assert "training of seed 0 diverged" in error_of(outcomes, failing)
    others_are_whole(tmp_path, whole, failing)
    assert any(line.startswith(f"{failing}: ") and "diverged" in line for line in said)
    assert not (tmp_path / failing / "adapt").exists()


@pytest.mark.parametrize("failing", [NAMES[0], NAMES[1]])
def test_a_damaged_dataset(tmp_path: Path, whole: Path, failing: str) -> None:
    """The damage is found before training; the next job's data is still collected."""
    shutil.copytree(whole / failing, tmp_path / failing)
    data = tmp_path / failing / "data" / "rewards.npy"
    data.write_bytes(data.read_bytes()[:-1] + b"\x00\x01")
    (tmp_path / failing / "summary.json").unlink()
    jobs = [job(tmp_path, name, resume=name == failing) for name in NAMES]
    outcomes = run_jobs(jobs, quiet=True)
    assert f"{failing}/data/rewards.npy' is damaged" in error_of(outcomes, failing)
    others_are_whole(tmp_path, whole, failing)


def test_an_adaptation_that_fails(tmp_path: Path, whole: Path) -> None:
    """The first job's second method finds results of other options in its place."""
    failing = NAMES[0]
    in_the_way = tmp_path / "jobs" / failing / "adapt" / METHODS[1] / "config.json"
    jobs = [job(tmp_path / "jobs", name) for name in NAMES]

    def say(line: str) -> None:
        if line.startswith(f"adapting {failing}"):
            in_the_way.parent.mkdir(parents=True, exist_ok=True)
            in_the_way.write_text("{}")

    outcomes = run_jobs(jobs, quiet=True, say=say)
    assert f"adapt/{METHODS[1]}' was made with other options" in error_of(outcomes, failing)
    others_are_whole(tmp_path / "jobs", whole, failing)
    assert (tmp_path / "jobs" / failing / "adapt" / METHODS[0] / "seed-000.npz").exists()


def test_a_resumed_job_completes(tmp_path: Path, whole: Path) -> None:
    """Once the cause of the failure is gone, only what is missing is computed."""
    failing = NAMES[1]
    jobs = [job(tmp_path / "jobs", name) for name in NAMES]
    place = tmp_path / "jobs" / failing / "data"

    def say(line: str) -> None:
        if line.startswith(f"data of {failing}"):
            place.mkdir()

    assert "no dataset" in error_of(run_jobs(jobs, quiet=True, say=say), failing)
    others_are_whole(tmp_path / "jobs", whole, failing)
    place.rmdir()
    run_jobs([job(tmp_path / "jobs", name, resume=True) for name in NAMES], quiet=True)
    for name in NAMES:
        assert results(tmp_path / "jobs" / name) == results(whole / name)


def test_mistakes_that_show_at_once_stop_all(tmp_path: Path) -> None:
    """If one job cannot start, none does."""
    jobs = [job(tmp_path, NAMES[0]), job(tmp_path, NAMES[1], methods=("posteror",))]
    with pytest.raises(IdaqError, match="Did you mean 'posterior'"):
        run_jobs(jobs)
    jobs = [job(tmp_path, NAMES[0]), job(tmp_path, NAMES[1], trajectories=0)]
    with pytest.raises(IdaqError, match="trajectories"):
        run_jobs(jobs)
    assert list(tmp_path.iterdir()) == []


def test_a_bug_ends_everything_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only mistakes of the user are put off; and no thread is left."""

    def broken(*arguments: Any) -> Any:
        raise ArithmeticError("a bug")

    monkeypatch.setattr(train_stage, "train_group", broken)
    with pytest.raises(ArithmeticError, match="a bug"):
        run_jobs([job(tmp_path, name) for name in NAMES], quiet=True)
    assert not [t for t in threading.enumerate() if t.name.startswith(("collect", "adapt"))]
