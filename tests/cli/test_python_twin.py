"""What the commands do, from Python."""

from pathlib import Path

import pytest

from idaq.behaviour.collect import collect
from idaq.config import override
from idaq.envs import get_family
from idaq.errors import IdaqError
from idaq.runs.api import adapt_all, run_all, train_all
from idaq.runs.directory import RunDir
from idaq.runs.resolve import resolve
from idaq.runs.run import Run
from idaq.runs.train_stage import Seeds
from idaq.settings import RunConfig
from tests.program import METHODS, RUN, results


def small() -> RunConfig:
    """The configuration that `RUN` gives on the command line."""
    config = resolve("default", "point-robot")
    settings = [word for word in RUN if "=" in word]
    settings += ["train.num_updates=5", "adapt.num_reference_episodes=2"]
    for setting in [*settings, "adapt.num_iterative_episodes=2"]:
        config = override(config, setting)
    return config


def test_run_all_is_the_twin_of_run(run: Path, tmp_path: Path) -> None:
    twin = RunDir(tmp_path / "twin")
    summary = run_all(
        twin,
        get_family("point-robot"),
        config=small(),
        methods=METHODS,
        seeds=Seeds(count=2),
        trajectories=2,
        quiet=True,
    )
    assert results(twin.path) == results(run)
    assert [row["method"] for row in summary["rows"]] == list(METHODS)


def test_collect_train_and_adapt_are_the_stages_of_run(run: Path, tmp_path: Path) -> None:
    family = get_family("point-robot")
    collect(family, tmp_path / "logs", trajectories=2)
    twin = RunDir(str(tmp_path / "twin"))
    train_all(twin, tmp_path / "logs", config=small(), seeds=Seeds(count=2), quiet=True)
    for method in METHODS:
        summary = adapt_all(twin, method)
    assert [row["method"] for row in summary["rows"]] == list(METHODS)
    ours, theirs = results(twin.path), results(run)
    for name in theirs:
        if name.startswith(("seeds", "adapt", "summary")):
            assert ours[name] == theirs[name]
    assert Run.open(twin).config == Run.open(run).config


def test_mistakes_raise_one_exception(run: Path, tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="no run directory"):
        adapt_all(RunDir(tmp_path), "posterior")
    with pytest.raises(IdaqError, match="holds a run already"):
        run_all(RunDir(run), get_family("point-robot"), config=small(), trajectories=2)
    with pytest.raises(IdaqError, match="Did you mean 'posterior'") as caught:
        adapt_all(RunDir(run), "posteror")
    assert caught.value.problem == "There is no adaptation method 'posteror'."
    assert caught.value.remedy.startswith("Did you mean 'posterior'?")
