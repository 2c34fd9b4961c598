"""Other draws of a family's tasks: `NAME@7`."""

from pathlib import Path

import numpy as np
import pytest

from idaq.behaviour.ladder import conditions, families_of_policies
from idaq.envs import FAMILIES, get_family, match_families
from idaq.errors import IdaqError
from idaq.storage.dataset import read_metadata
from tests.program import JOB, Program, idaq

__all__ = ["idaq"]  # a fixture

DRAWABLE = ("point-robot", "point-robot-sparse", "cheetah-vel", "ml1/reach")


@pytest.mark.parametrize("name", DRAWABLE)
def test_a_draw_is_the_same_family_with_other_tasks(name: str) -> None:
    usual, drawn, again = get_family(name), get_family(f"{name}@7"), get_family(f"{name}@7")
    assert drawn.name == f"{name}@7"
    assert drawn == again
    assert hash(drawn) == hash(again)
    assert (drawn.spec, drawn.num_tasks) == (usual.spec, usual.num_tasks)
    np.testing.assert_array_equal(drawn.task_params, again.task_params)
    assert not np.isclose(drawn.task_params, usual.task_params).all(axis=1).any()
    other = get_family(f"{name}@8").task_params
    assert not np.isclose(drawn.task_params, other).all(axis=1).any()


def test_drawn_goals_are_of_the_usual_kind() -> None:
    goals = get_family("point-robot@7").task_params
    np.testing.assert_allclose(np.linalg.norm(goals, axis=1), 1.0, rtol=1e-6)
    assert (goals[:, 1] >= 0).all()
    velocities = get_family("cheetah-vel@7").task_params
    assert velocities.min() >= 0
    assert velocities.max() <= 3


def test_a_simulator_is_put_on_the_drawn_tasks() -> None:
    reach, drawn = get_family("ml1/reach"), get_family("ml1/reach@7")
    action = np.zeros(4, np.float32)
    rewards = {}
    for family in (reach, drawn):
        env = family.make_env()  # type: ignore[attr-defined]
        env.reset(options={"task": 3})
        rewards[family.name] = env.step(action)[1]
        env.close()
    assert rewards["ml1/reach"] != rewards["ml1/reach@7"]
    cheetah = get_family("cheetah-vel@7")
    env = cheetah.make_env()  # type: ignore[attr-defined]
    env.reset(seed=0, options={"task": 3})
    _, reward, _, _, info = env.step(np.zeros(6, np.float32))
    assert reward == pytest.approx(-abs(info["velocity"] - cheetah.task_params[3, 0]))


def test_policies_are_told_of_drawn_tasks_in_the_units_that_they_learned() -> None:
    usual, drawn = get_family("cheetah-vel"), get_family("cheetah-vel@7")
    assert families_of_policies(drawn) == ("cheetah-vel@7", "cheetah-vel")
    known = usual.task_params.astype(np.float64)
    expected = (drawn.task_params - known.mean(axis=0)) / known.std(axis=0)
    np.testing.assert_allclose(conditions(drawn), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("point-robot@x", "Give a whole number after '@'"),
        ("point-robot@", "Give a whole number after '@'"),
        ("point-robot@-1", "Give a whole number after '@'"),
        ("point-robot@7@8", "Give a whole number after '@'"),
        ("point-robt@7", "Did you mean 'point-robot'"),
        (f"point-robot@{2**32}", "out of range"),
    ],
)
def test_what_is_no_draw_is_refused(name: str, problem: str) -> None:
    with pytest.raises(IdaqError, match=problem):
        get_family(name)


def test_a_family_without_draws_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("idaq.envs.point_robot.PointRobot.redrawn")
    with pytest.raises(IdaqError, match="'point-robot' has no other draws of its tasks"):
        get_family("point-robot@7")


def test_draws_are_not_listed_and_count_as_built_in() -> None:
    assert all("@" not in name for name in FAMILIES)
    assert FAMILIES.is_built_in("ml1/reach@7")
    assert [family.name for family in match_families(["point-robot@7"])] == ["point-robot@7"]


def test_a_whole_run_on_drawn_tasks(idaq: Program, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("run", "point-robot@7", *JOB, "--seeds", "1", "--methods", "idaq-return")
    assert idaq(*command, "--out", str(out)).code == 0
    metadata = read_metadata(out / "data")
    assert metadata["family"] == "point-robot@7"
    drawn = get_family("point-robot@7").task_params
    np.testing.assert_allclose(metadata["task_params"], drawn.tolist())
    assert idaq("report", str(out)).code == 0
