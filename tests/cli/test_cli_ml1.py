"""Simulators on the command line: one real Meta-World set, and several families at a time."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from idaq.cli import main
from idaq.envs import FAMILIES, get_family
from idaq.envs.family import HostFamily, is_host_family, split_tasks
from idaq.envs.metaworld import sets as ml1
from idaq.storage.dataset import Dataset, open_dataset
from tests.host_fakes import Walk
from tests.program import JOB, TRAINING, Program, results, tree

SET = "ml1/reach"
REAL_METHODS = ("idaq-return", "posterior", "expert-context")
REAL = (
    *("run", SET, "--trajectories", "1", "--seeds", "1", "--updates", "20", *TRAINING[2:]),
    *("--n-r", "1", "--n-i", "1", "--methods", *REAL_METHODS, "--workers", "2"),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> tuple[Path, str]:
    """A finished run of a real set, and what was printed; not to be changed."""
    pytest.importorskip("metaworld")
    place = tmp_path_factory.mktemp("ml1") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("idaq.report.figures.write_figures", lambda run: [])
        assert main([*REAL, "--out", str(place)]) == 0
    return place, (place / "summary.json").read_text()


@pytest.fixture
def real(finished: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(finished[0], tmp_path / "real"))


@pytest.fixture
def real_data(finished: tuple[Path, str]) -> Dataset:
    return open_dataset(finished[0] / "data", get_family(SET).spec)


def simulated(name: str) -> HostFamily:
    family = get_family(name)
    assert is_host_family(family)
    return family


def test_a_real_run_has_scores(idaq: Program, real: Path) -> None:
    outcome = idaq("report", real)
    assert outcome.code == 0
    header = next(line for line in outcome.out.splitlines() if "method" in line)
    assert header.split()[:4] == ["method", "return", "success", "score"]
    lines = {line.split()[0]: line.split() for line in outcome.out.splitlines() if line.strip()}
    summary = json.loads(idaq("report", real, "--json").out)
    assert [row["method"] for row in summary["rows"]] == list(REAL_METHODS)
    data = json.loads((real / "dataset.json").read_text())
    assert sum(data["successes"]) >= 45, "the expert solves its tasks"
    test = split_tasks(50, 0).test
    num, returns = np.asarray(data["successes"])[test], np.asarray(data["successful_returns"])[test]
    expert = (num * returns).sum() / num.sum()
    for row in summary["rows"]:
        with np.load(real / "adapt" / row["method"] / "seed-000.npz") as raw:
            final, success = raw["returns"][:, -1], raw["success"][:, -1]
            assert raw["tasks"].tolist() == test.tolist()
            assert "observations" not in raw, "too large to keep"
        assert row["mean"] == pytest.approx(final.mean())
        assert row["success"] == success.mean()
        assert row["score"] == pytest.approx(final.mean() / expert)
        assert row["score_capped"] == pytest.approx(min(row["score"], 1.0))
        assert row["score_dataset"] == pytest.approx(final.mean() / data["mean_return"])
        assert lines[row["method"]][1:4] == [
            f"{row['mean']:.0f}",
            *(f"{row[name]:.2f}" for name in ("success", "score")),
        ]
        assert row["mean"] > 0.0


def test_real_data_hides_the_goal(real_data: Dataset) -> None:
    arrays = real_data.arrays
    assert real_data.num_episodes == 50
    assert real_data.num_transitions == 50 * 500
    for name in ("observations", "next_observations"):
        assert arrays[name].dtype == np.float32
        assert arrays[name].shape[1] == 39
        assert not arrays[name][:, -3:].any()
    assert not arrays["terminated"].any()
    assert np.flatnonzero(arrays["truncated"]).tolist() == list(range(499, 25_000, 500))
    success = real_data.episode_success()
    assert success is not None
    assert success.mean() >= 0.9
    assert not arrays["success"][::500].any(), "said of every step, and not of the first"


@pytest.mark.parametrize("task", [0, 41])
def test_real_data_can_be_replayed(real_data: Dataset, task: int) -> None:
    """What workers wrote is what a simulator here does with the same actions."""
    env, episode = simulated(SET).make_env(), real_data.episode(task)
    obs, _ = env.reset(options={"task": task})
    for step, action in enumerate(episode["actions"]):
        np.testing.assert_array_equal(obs, episode["observations"][step])
        obs, reward, _, truncated, info = env.step(action)
        np.testing.assert_array_equal(obs, episode["next_observations"][step])
        assert np.float32(reward) == episode["rewards"][step]
        assert info["success"] == episode["success"][step]
        assert truncated == episode["truncated"][step]


def test_a_real_run_does_not_depend_on_its_workers(idaq: Program, real: Path) -> None:
    """One worker instead of two, in a command of its own."""
    adapt = ("adapt", real, "--method", "expert-context", "--name", "again", "--workers", "1")
    assert idaq(*adapt).code == 0
    with (
        np.load(real / "adapt/expert-context/seed-000.npz") as first,
        np.load(real / "adapt/again/seed-000.npz") as second,
    ):
        assert set(first) == set(second)
        for name in first:
            np.testing.assert_array_equal(first[name], second[name])


def test_a_real_run_is_resumed(idaq: Program, real: Path, finished: tuple[Path, str]) -> None:
    """What is there is left alone, and a method gives alone what it gives beside others."""
    shutil.rmtree(real / "adapt/posterior")
    before = tree(real)
    outcome = idaq(*REAL, "--resume", "--json", "--out", real)
    assert outcome.code == 0, outcome.err
    assert outcome.out == finished[1]
    after = tree(real)
    for name in before:
        if name.startswith(("data", "seeds/", "adapt/idaq", "adapt/expert")):
            assert after[name] == before[name], f"{name} is not computed again"
    assert results(real) == results(finished[0])


# --- Several families ---

POINTS = ("point-robot", "point-robot-sparse")
SEVERAL = (*JOB, "--methods", "idaq-return", "--seeds", "1")


@pytest.fixture
def alone(idaq: Program, tmp_path: Path) -> Path:
    """Each family by a command of its own."""
    for name in POINTS:
        assert idaq("run", name, *SEVERAL, "--out", tmp_path / "alone" / name).code == 0
    return tmp_path / "alone"


def test_together_as_one_by_one(idaq: Program, alone: Path, tmp_path: Path) -> None:
    """By name, by pattern, and named twice; each family has its own directory below --out."""
    for number, families in enumerate([POINTS, ("point-*",), ("point-robot", "*-robot*")]):
        place = tmp_path / f"together-{number}"
        outcome = idaq("run", *families, *SEVERAL, "--out", place, "--json")
        assert outcome.code == 0, outcome.err
        assert [summary["family"] for summary in json.loads(outcome.out)] == list(POINTS)
        assert sorted(each.name for each in place.iterdir()) == sorted(POINTS)
        for name in POINTS:
            assert results(place / name) == results(alone / name)
            assert f"results: {place / name}" in outcome.err


def test_several_are_resumed(idaq: Program, alone: Path, refused: Program) -> None:
    command = ("run", "point-*", *SEVERAL, "--out", alone)
    refused(*command, names=(alone / "point-robot", "--resume"))
    expected = {name: results(alone / name) for name in POINTS}
    shutil.rmtree(alone / "point-robot" / "adapt")
    shutil.rmtree(alone / "point-robot-sparse" / "seeds")
    outcome = idaq(*command, "--resume")
    assert outcome.code == 0, outcome.err
    assert {name: results(alone / name) for name in POINTS} == expected
    assert outcome.out.count("preset default") == 2


def test_directories_by_default(
    idaq: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert idaq("run", *POINTS, *SEVERAL).code == 0
    found = sorted(each.name for each in (tmp_path / "runs").iterdir())
    assert found == ["point-robot-default", "point-robot-sparse-default"]


@pytest.mark.parametrize(
    ("families", "names"),
    [
        (("point-robt",), ("'point-robt'", "Did you mean 'point-robot'", "idaq list")),
        (("ml1/drawer-clos",), ("Did you mean 'ml1/drawer-close'", "idaq list")),
        (("ml2/*",), ("'ml2/*'", "idaq list")),
        (("point-robot", "ml1/x*"), ("'ml1/x*'", "idaq list")),
        (("point-robot", ""), ("''", "idaq list")),
    ],
)
def test_patterns_of_nothing(
    refused: Program, tmp_path: Path, families: tuple[str, ...], names: tuple[str, ...]
) -> None:
    refused("run", *families, *SEVERAL, "--out", tmp_path / "run", names=names)


def test_no_family(refused: Program, tmp_path: Path) -> None:
    refused("run", *JOB, "--out", tmp_path / "run", names=("FAMILY", "idaq list"))


FAKES = ("ml1/push", "ml1/reach")  # in name: the preset is there, and the simulator is quick


def test_simulators_together_as_one_by_one(
    idaq: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever overlaps and whoever simulates: the same results, byte for byte."""
    for name, lengths in zip(FAKES, [(6, 1, 4), (2, 6)], strict=True):
        monkeypatch.setitem(FAMILIES.added, name, Walk(num_tasks=10, lengths=lengths, name=name))
    command = (*JOB, "--methods", "idaq-return", "--seeds", "1")
    for name in FAKES:
        place = tmp_path / "alone" / name
        assert idaq("run", name, *command, "--workers", "1", "--out", place).code == 0
    together = ("run", *FAKES, *command, "--workers", "2", "--out", tmp_path / "together")
    assert idaq(*together).code == 0
    expected = results(tmp_path / "alone")
    found = results(tmp_path / "together")
    assert len(found) > 30
    for name in found:
        if Path(name).name not in ("run.json", "timing.json", ".lock"):
            assert found[name] == expected[name], name


@pytest.mark.parametrize("num", ["-1", "1001"])
def test_impossible_numbers_of_workers(refused: Program, tmp_path: Path, num: str) -> None:
    collect = ("collect", "point-robot", "--out", tmp_path / "data")
    refused(*collect, "--workers", num, names=(f"--workers is {num}", "one per core"))
    run = ("run", "point-robot", *JOB, "--out", tmp_path / "run")
    refused(*run, "--workers", num, names=(f"--workers is {num}", "one per core"))


@pytest.mark.parametrize("families", [("ml1/push",), ("ml1/push", "ml1/reach")])
def test_metaworld_that_is_not_installed(
    refused: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, families: tuple[str, ...]
) -> None:
    """Said before a directory is made, which a second try would find in its way."""
    monkeypatch.setitem(sys.modules, "metaworld", None)
    ml1._benchmark.cache_clear()
    refused("run", *families, *JOB, "--out", tmp_path / "run", names=("idaq[metaworld]",))
