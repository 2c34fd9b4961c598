"""Videos: which episodes are shown, that they are the very ones, how they look, and refusals."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from idaq.algos import make_algorithm
from idaq.config import override, to_dict
from idaq.envs import FAMILIES, get_family
from idaq.envs.family import Expert
from idaq.errors import IdaqError
from idaq.report import video
from idaq.report.video import (
    Panel,
    check_video,
    choose_episodes,
    draw_frames,
    write_gif,
    write_video,
)
from idaq.runs import replay
from idaq.runs.api import adapt_all
from idaq.runs.directory import RunDir
from idaq.runs.presets import resolve
from idaq.runs.replay import Footage
from idaq.runs.results import load_results
from idaq.storage import checkpoint
from idaq.storage.atomic import write_json
from idaq.types import Spec
from tests.fakes import write_manifest
from tests.program import NETWORKS, Program, idaq

__all__ = ["idaq"]  # a fixture

SIDE = 24  # pixels of a made-up picture
HORIZON = 7
METHOD = "idaq-return"
SPEC = Spec(
    obs_dim=1,
    action_dim=1,
    action_low=(-1.0,),
    action_high=(1.0,),
    horizon=HORIZON,
    has_success=True,
)


@pytest.fixture(autouse=True)
def fresh_probe() -> Iterator[None]:
    """What MuJoCo can do here is found out anew."""
    replay._offscreen_gl.cache_clear()
    yield
    replay._offscreen_gl.cache_clear()


def empty_run(path: Path, family: str, config: dict[str, Any] | None = None) -> RunDir:
    run = RunDir(path)
    write_manifest(run, family, config=config)
    return run


# --- A simulator with a camera that needs no graphics ---


class Lamp(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """A picture shows the step in its brightness; rewards depend on task, seed and action."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.task, self.step_index = int((options or {})["task"]), 0
        return np.zeros(1, np.float32), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.step_index += 1
        reward = self.task + float(action[0]) + float(self.np_random.uniform())
        obs = np.full(1, self.step_index, np.float32)
        return obs, reward, False, False, {"success": self.step_index >= 3}

    def render(self) -> Any:
        return np.full((SIDE, SIDE, 3), 10 * self.step_index, np.uint8)


@dataclass(frozen=True)
class Lamps:
    name: str = "lamps"
    version: int = 1
    num_tasks: int = 35  # of which seven are for testing: a batch of five and one of two
    spec: Spec = SPEC

    @property
    def task_params(self) -> NDArray[np.float32]:
        return np.arange(self.num_tasks, dtype=np.float32)[:, None]

    def check_simulator(self) -> None:
        """Nothing is missing."""

    def make_env(self, render_mode: str | None = None) -> Lamp:
        return Lamp()

    def make_expert(self, env: Any) -> Expert:
        raise NotImplementedError


@pytest.fixture
def lamps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunDir:
    """A run on lamps whose agent was never trained, with results."""
    monkeypatch.setitem(FAMILIES, "lamps", Lamps())
    monkeypatch.setattr(replay, "_offscreen_gl", lambda wanted: "none")
    config = resolve("default", "point-robot")
    settings = [word for word in NETWORKS if "=" in word]
    settings += ["adapt.num_reference_episodes=3", "adapt.num_iterative_episodes=2"]
    for setting in settings:
        config = override(config, setting)
    run = empty_run(tmp_path / "run", "lamps", to_dict(config))
    write_json(run.groups_file, [[0]])
    algorithm = make_algorithm(config.algorithm, SPEC)
    rng = np.random.default_rng(0)
    shapes = algorithm.agent_shapes(28)
    agent = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), shapes)
    checkpoint.save(run.agent_file(0), agent, {"seed": 0})
    adapt_all(run, METHOD, workers=1)
    return run


def test_the_episodes_are_the_very_ones(lamps: RunDir) -> None:
    tasks = load_results(lamps, METHOD, 0)["tasks"]
    file = write_video(lamps, METHOD, int(tasks[6]))  # in the second batch
    assert file == lamps.video_file(METHOD, int(tasks[6]))
    with Image.open(file) as image:
        assert getattr(image, "n_frames", 1) == HORIZON + 1

    # --- Results that say something else are not filmed ---
    results = load_results(lamps, METHOD, 0)
    results["returns"][0, -1] += 0.1
    np.savez(lamps.result_file(METHOD, 0), **results)  # type: ignore[arg-type]
    with pytest.raises(IdaqError, match="when it is run again"):
        write_video(lamps, METHOD)
    with pytest.raises(IdaqError, match="is no test task of seed 0") as caught:
        write_video(lamps, METHOD, 1_000)
    assert str(tasks[0]) in caught.value.remedy
    assert list(file.parent.iterdir()) == [file]


# --- What is shown ---


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


# --- How it looks ---


def footage(num_steps: int, every: int, success_at: int | None = None) -> Footage:
    """Noise, in which no two pictures are the same."""
    num_frames = 1 + -(-num_steps // every)
    frames = np.random.default_rng(num_steps).integers(0, 255, (num_frames, SIDE, SIDE, 3))
    success = np.arange(1, num_steps + 1) == success_at
    return Footage(frames.astype(np.uint8), np.ones(num_steps, np.float32), success)


def test_pictures_become_a_gif(tmp_path: Path) -> None:
    films = [footage(20, 5), footage(20, 5, success_at=7), footage(12, 5)]
    panels = [Panel(film, "Title", "meaning", "outcome") for film in films]
    images = draw_frames(["lamps, test task 3", "adaptation by idaq-return"], panels, every=5)
    assert len(images) == 5
    write_gif(tmp_path / "a" / "video.gif", images)
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["video.gif"]
    with Image.open(tmp_path / "a" / "video.gif") as image:
        assert image.format == "GIF"
        assert getattr(image, "n_frames", 1) == 5
        assert image.size == images[0].size
        assert image.width > 3 * SIDE
        assert image.height > SIDE
        durations = []
        for i in range(5):
            image.seek(i)
            durations.append(image.info["duration"])
        assert durations == [video.FRAME_MS] * 4 + [video.LAST_FRAME_MS]
        assert image.info["loop"] == 0


def test_success_frames_the_picture_from_its_step_on() -> None:
    panel = Panel(footage(20, 5, success_at=7), "Title", "meaning", "outcome")
    images = draw_frames(["header"], [panel], every=5)
    green = tuple(int(video.SUCCESS[i : i + 2], 16) for i in (1, 3, 5))
    left, films_at = video.MARGIN, images[0].height - SIDE - video.GAP - video.LINE - video.MARGIN
    corners = [image.getpixel((left, films_at)) == green for image in images]
    assert corners == [False, False, True, True, True]


# --- Refusals ---


def test_a_family_without_a_camera_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="'point-robot' has no camera"):
        check_video(empty_run(tmp_path, "point-robot"))


def test_a_machine_that_cannot_draw_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco")
    run = empty_run(tmp_path, "ml1/reach")
    monkeypatch.setenv("MUJOCO_GL", "bogus")
    with pytest.raises(IdaqError, match="MUJOCO_GL=bogus") as caught:
        check_video(run)
    assert "libosmesa6" in caught.value.remedy
    assert "MUJOCO_GL=osmesa" in caught.value.remedy

    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.setattr(replay, "_can_draw", lambda way: False)
    with pytest.raises(IdaqError, match="tried MUJOCO_GL=egl and osmesa"):
        check_video(run)
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def test_what_works_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.setattr(replay, "_can_draw", lambda way: way == "osmesa")
    assert replay._offscreen_gl(None) == "osmesa"
    assert replay._offscreen_gl("OSMesa") == "osmesa"
    with pytest.raises(IdaqError, match="tried MUJOCO_GL=egl"):
        replay._offscreen_gl("egl")


def test_the_command_line(tmp_path: Path, idaq: Program) -> None:
    out = idaq("adapt", "--help").out
    assert "--video" in out
    assert "--video-task TASK" in out

    run = empty_run(tmp_path, "point-robot").path
    for options, message in [
        (("--video",), "has no camera"),
        (("--video-task", 3), "Add --video"),
    ]:
        outcome = idaq("adapt", run, *options)
        assert outcome.code == 2
        assert message in outcome.err
        assert outcome.err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


# --- A real camera ---


@pytest.mark.slow
def test_the_camera_sees_the_robot_move() -> None:
    """The table is in the lower half, which it would not be in a picture upside down."""
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
    assert abs(red - blue) < 15  # nothing but grey far away


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
