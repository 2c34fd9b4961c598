"""Videos: which episodes are shown, how they look, and refusals."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from idaq.config import to_dict
from idaq.errors import IdaqError
from idaq.report import video
from idaq.report.video import Panel, draw_frames, write_gif, write_video
from idaq.runs.replay import Footage, film_adaptation
from idaq.runs.resolve import resolve
from idaq.runs.results import load_results
from idaq.runs.run import Run
from tests.camera import HORIZON, METHOD, SIDE, empty_run, fresh_probe, lamps
from tests.program import Program, idaq

__all__ = ["fresh_probe", "idaq", "lamps"]  # fixtures


def test_a_video_is_written_beside_the_results(lamps: Run) -> None:
    tasks = load_results(lamps, METHOD, 0)["tasks"]
    film = film_adaptation(lamps, METHOD, int(tasks[6]))  # in the second batch
    file = write_video(lamps, film)
    assert file == lamps.directory.video_file(METHOD, int(tasks[6]))
    with Image.open(file) as image:
        assert getattr(image, "n_frames", 1) == HORIZON + 1

    # --- Results that say something else are not filmed ---
    results = load_results(lamps, METHOD, 0)
    results["returns"][0, -1] += 0.1
    np.savez(lamps.directory.result_file(METHOD, 0), **results)  # type: ignore[arg-type]
    with pytest.raises(IdaqError, match="when it is run again"):
        film_adaptation(lamps, METHOD)
    with pytest.raises(IdaqError, match="is no test task of seed 0") as caught:
        film_adaptation(lamps, METHOD, 1_000)
    assert str(tasks[0]) in caught.value.remedy
    assert list(file.parent.iterdir()) == [file]


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


def test_the_command_line(tmp_path: Path, idaq: Program) -> None:
    out = idaq("adapt", "--help").out
    assert "--video" in out
    assert "--video-task TASK" in out

    config = to_dict(resolve("default", "point-robot"))
    run = empty_run(tmp_path, "point-robot", config).path
    for options, message in [
        (("--video",), "has no camera"),
        (("--video-task", 3), "Add --video"),
    ]:
        outcome = idaq("adapt", run, *options)
        assert outcome.code == 2
        assert message in outcome.err
        assert outcome.err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
