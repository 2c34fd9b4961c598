"""Replays: exactly the episodes of the results, and how MuJoCo draws them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from idaq.envs import get_family
from idaq.errors import IdaqError
from idaq.runs import replay
from idaq.runs.replay import check_replay, choose_episodes, film
from idaq.runs.results import load_results
from idaq.runs.run import Run
from tests.camera import HORIZON, METHOD, SIDE, empty_run, fresh_probe, lamps

__all__ = ["fresh_probe", "lamps"]  # fixtures


@pytest.mark.parametrize("place", [0, 6])  # the last one is in the second batch
def test_the_episodes_are_the_very_ones(lamps: Run, place: int) -> None:
    results = load_results(lamps, METHOD, 0)
    task = int(results["tasks"][place])
    footage = film(lamps, METHOD, [0, 4], task=task, every=3)
    for each, index in zip(footage, (0, 4), strict=True):
        np.testing.assert_allclose(each.rewards.sum(), results["returns"][place, index], rtol=1e-5)
        assert each.first_success == 3
        assert each.frames.shape == (4, SIDE, SIDE, 3)
        assert each.frames[:, 0, 0, 0].tolist() == [0, 30, 60, 10 * HORIZON]


def test_a_family_without_a_camera_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="'point-robot' has no camera"):
        check_replay(Run.open(empty_run(tmp_path, "point-robot")))


def test_a_machine_that_cannot_draw_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco")
    run = Run.open(empty_run(tmp_path, "ml1/reach"))
    monkeypatch.setenv("MUJOCO_GL", "bogus")
    with pytest.raises(IdaqError, match="MUJOCO_GL=bogus") as caught:
        check_replay(run)
    assert "libosmesa6" in caught.value.remedy
    assert "MUJOCO_GL=osmesa" in caught.value.remedy

    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.setattr(replay, "_can_draw", lambda way: False)
    with pytest.raises(IdaqError, match="tried MUJOCO_GL=egl and osmesa"):
        check_replay(run)
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def test_what_works_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.setattr(replay, "_can_draw", lambda way: way == "osmesa")
    assert replay._offscreen_gl(None) == "osmesa"
    assert replay._offscreen_gl("OSMesa") == "osmesa"
    with pytest.raises(IdaqError, match="tried MUJOCO_GL=egl"):
        replay._offscreen_gl("egl")


# --- Which episodes ---


def results_of(uncertainty: Any = None, num_episodes: int = 4) -> dict[str, NDArray[Any]]:
    results: dict[str, NDArray[Any]] = {"returns": np.zeros((1, num_episodes))}
    if uncertainty is not None:
        results["uncertainty"] = np.asarray([uncertainty], float)
    return results


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        (results_of([3.0, 1.0, 2.0, np.nan]), {0: ["first"], 1: ["selected"], 3: ["final"]}),
        (results_of([3.0, np.nan, 2.0, 0.0]), {0: ["first"], 2: ["selected"], 3: ["final"]}),
        (results_of([1.0, 3.0, 2.0, np.nan]), {0: ["first", "selected"], 3: ["final"]}),
        (results_of([np.nan] * 4), {0: ["first"], 3: ["final"]}),
        (results_of(), {0: ["first"], 3: ["final"]}),
        (results_of(num_episodes=1), {0: ["final"]}),
    ],
)
def test_the_first_the_selected_and_the_final_episode_are_shown(
    results: dict[str, NDArray[Any]], expected: dict[int, list[str]]
) -> None:
    assert choose_episodes(results, 0) == expected


# --- A real camera ---


@pytest.mark.slow
def test_the_camera_sees_the_robot_move() -> None:
    """The table is in the lower half, so the picture is not upside down."""
    pytest.importorskip("metaworld")
    try:
        gl = replay._offscreen_gl(os.environ.get("MUJOCO_GL"))
    except IdaqError as error:
        pytest.skip(str(error))
    from idaq.engine.pool import WorkerPool

    with WorkerPool(1) as pool:
        (pictures,) = pool.results([CameraUnit(gl)])
    before, after = pictures
    assert before.shape == after.shape == (320, 320, 3)
    assert (before != after).any(axis=-1).mean() > 0.01
    red, green, blue = before[200:300, 100:].mean(axis=(0, 1))
    assert red > green > blue  # wood
    red, green, blue = before[:40, 250:].mean(axis=(0, 1))
    assert abs(red - blue) < 15  # only grey in the distance


@dataclass(frozen=True)
class CameraUnit:
    """Two pictures of a robot that has moved in between."""

    gl: str

    def run(self) -> tuple[Any, Any]:
        os.environ["MUJOCO_GL"] = self.gl
        family: Any = get_family("ml1/reach")
        env = family.make_env("rgb_array")
        env.reset(options={"task": 0})
        before = env.render().copy()
        for _ in range(20):
            env.step(np.array([0.0, 1.0, -1.0, 0.0], np.float32))
        return before, env.render().copy()
