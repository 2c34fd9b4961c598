"""Videos of adaptation: episodes of a simulator, run again before a camera.

`RUN/videos/NAME-task-00.gif` shows side by side the first episode on one test task, the selected
one (that of the lowest uncertainty, before the final one), and the final one. The results of a
simulator hold no observations, so the episodes are run again with the same agent, hypothesis, task
and key; where one of them does not return what the results say, no video is written.

MuJoCo decides where it draws when it is first imported, so a fresh process does the drawing.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from idaq.algos.entries import make_algorithm
from idaq.engine.pool import UNIT_EPISODES, PolicyUnit, WorkerPool, reset_seed
from idaq.envs import get_family
from idaq.envs.family import HostFamily, is_host_family
from idaq.errors import IdaqError
from idaq.runs.adaptation import adaptation_key, load_agent
from idaq.runs.directory import RunDir
from idaq.runs.summary import RawResults, load_results
from idaq.runs.training import run_config, split_of
from idaq.storage.outputs import GENERATOR, VIDEO, output_file
from idaq.types import TaskSplit

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

MAX_FRAMES = 100  # of an episode, beside the one before its first step
FRAME_MS, LAST_FRAME_MS = 60, 2_000
RETURN_RTOL, RETURN_ATOL = 1e-5, 1e-3  # float32 sums of the same rewards

WAYS_TO_DRAW = ("egl", "osmesa")  # values of MUJOCO_GL that need no screen, the quick one first
PROBE_TIMEOUT_S = 60
PROBE = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco/>")
renderer = mujoco.Renderer(model, 8, 8)
renderer.update_scene(mujoco.MjData(model))
renderer.render()
"""

FONT_SIZE, LINE = 14, 20  # pixels
MARGIN, GAP = 10, 6
MIN_COLUMN = 300  # so that captions fit
BACKGROUND, TEXT, FAINT = "#FFFFFF", "#222222", "#666666"
TRACK, BAR = "#E6E6E6", "#0072B2"
SUCCESS = "#008561"
NUM_COLOURS = 256  # as many as a GIF can have


class Footage(NamedTuple):
    """What a camera saw of one episode."""

    frames: NDArray[np.uint8]  # [pictures, height, width, 3]: the start, then every `every` steps
    rewards: NDArray[np.float32]  # [steps]
    success: NDArray[np.bool_]  # [steps]

    @property
    def first_success(self) -> int | None:
        """The step that first succeeded, counted from 1."""
        return int(np.argmax(self.success)) + 1 if self.success.any() else None


@dataclass(frozen=True)
class FilmUnit:
    """One episode of an agent before a camera; work for a worker that has done nothing else."""

    episode: PolicyUnit  # of one row
    gl: str  # what MUJOCO_GL is to be
    every: int  # steps from one picture to the next

    def run(self) -> Footage:
        os.environ["MUJOCO_GL"] = self.gl  # before anything imports MuJoCo
        (row,) = self.episode.rows
        actions, valid = (field[0] for field in _actions(self.episode))
        env = _simulator(self.episode.family)
        seed = reset_seed(self.episode.keys[row])
        env.reset(seed=seed, options={"task": int(self.episode.tasks[row])})
        frames, rewards, success = [np.array(env.render())], [], []
        for step, action in enumerate(actions[valid], start=1):
            _, reward, _, _, info = env.step(action)
            rewards.append(reward)
            success.append(bool(info.get("success", False)))
            if step % self.every == 0 or step == valid.sum():
                frames.append(np.array(env.render()))
        return Footage(np.stack(frames), np.asarray(rewards, np.float32), np.asarray(success, bool))


def _actions(unit: PolicyUnit) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    episodes = unit.run()
    return episodes.action, episodes.valid


@lru_cache(maxsize=1)
def _simulator(family: HostFamily) -> Any:
    return family.make_env("rgb_array")


# --- What is shown ---


def check_video(run: RunDir, task: int | None = None) -> None:
    """Everything that can be known to be wrong with a video before there are results."""
    _family(run)
    if run.seeds():
        _place(run, task)
    _offscreen_gl(os.environ.get("MUJOCO_GL"))


def write_video(run: RunDir, name: str, task: int | None = None) -> Path:
    """Film the first seed's episodes of one test task (of none given: the first one)."""
    check_video(run, task)
    family, seed = _family(run), run.seeds()[0]
    place, split = _place(run, task)
    results = load_results(run, name, seed)
    chosen = choose_episodes(results, place)
    every = -(-family.spec.horizon // MAX_FRAMES)
    with WorkerPool(1) as pool:
        episodes = [_episode(run, family, results, split, i, place, pool) for i in chosen]
        gl = _offscreen_gl(os.environ.get("MUJOCO_GL"))
        footage = list(pool.results([FilmUnit(episode, gl, every) for episode in episodes]))
    shown = int(split.test[place])
    for index, film in zip(chosen, footage, strict=True):
        _check_return(name, shown, index, film, float(results["returns"][place, index]))
    kind = "test task" if run.manifest()["identity"]["split"] == "test" else "held-out task"
    images = draw_frames(
        [f"{family.name}, {kind} {shown}", f"adaptation by {name}, agent of seed {seed}"],
        [
            Panel(film, *_caption(roles, index, results, film, family.spec.has_success))
            for (index, roles), film in zip(chosen.items(), footage, strict=True)
        ],
        every,
    )
    file = run.video_file(name, shown)
    write_gif(file, images)
    return file


def choose_episodes(results: RawResults, place: int) -> dict[int, list[str]]:
    """The episodes to show, in order, and what each is; an episode may be two of them.

    The selected one is left out where a method has no uncertainty to select by.
    """
    last = results["returns"].shape[1] - 1
    roles: dict[int, list[str]] = {}
    if last > 0:
        roles[0] = ["first"]
        judged = results["uncertainty"][place, :last] if "uncertainty" in results else np.array([])
        if np.isfinite(judged).any():
            roles.setdefault(int(np.nanargmin(judged)), []).append("selected")
    return roles | {last: ["final"]}


def _caption(
    roles: list[str], index: int, results: RawResults, film: Footage, has_success: bool
) -> tuple[str, str, str]:
    """A title, what the episode is, and how it ended."""
    num_episodes = results["returns"].shape[1]
    title = " and ".join(roles).capitalize() + " episode"
    meaning = {
        "first": "a first guess",
        "selected": "the most in-distribution",
        "final": "the policy that is scored",
    }[roles[-1]]
    outcome = f"return {film.rewards.sum():,.1f}"
    if has_success:
        step = film.first_success
        outcome += ", no success" if step is None else f", success at step {step}"
    return title, f"{index + 1} of {num_episodes}: {meaning}", outcome


def _family(run: RunDir) -> HostFamily:
    family = get_family(run.manifest()["identity"]["family"])
    if not is_host_family(family):
        raise IdaqError(
            f"'{family.name}' has no camera, so there is no video of it.",
            "Leave out --video; `idaq report` draws its episodes.",
        )
    return family


def _place(run: RunDir, task: int | None) -> tuple[int, TaskSplit]:
    """Which of the first seed's test tasks `task` is, and what they are."""
    seed = run.seeds()[0]
    split = split_of(run, _family(run), seed)
    tasks = split.test.tolist()
    if task is not None and task not in tasks:
        raise IdaqError(
            f"Task {task} is no test task of seed {seed}.",
            f"Give one of {', '.join(map(str, tasks))} as --video-task.",
        )
    return (0 if task is None else tasks.index(task)), split


def _episode(
    run: RunDir,
    family: HostFamily,
    results: RawResults,
    split: TaskSplit,
    index: int,
    place: int,
    pool: WorkerPool,
) -> PolicyUnit:
    """The episode as `idaq.engine.meta_test` had it run: same key, same row of the same batch."""
    if "hypotheses" not in results:
        raise IdaqError(
            "These results hold no hypotheses to run again: adapted weights are too large to save.",
            "Videos are of algorithms with a context encoder or a belief.",
        )
    seed, algorithm = run.seeds()[0], make_algorithm(run_config(run).algorithm, family.spec)
    agent = load_agent(run, algorithm, seed, len(split.train))
    keys = jax.random.split(jax.random.fold_in(adaptation_key(seed), 1 + index), len(split.test))
    first = place - place % UNIT_EPISODES
    batch = slice(first, first + UNIT_EPISODES)
    return PolicyUnit(
        family=family,
        policy=algorithm,
        agent_file=pool.share_agent(agent),
        hypotheses=results["hypotheses"][batch, index],
        tasks=np.asarray(split.test[batch], np.int64),
        keys=np.asarray(jax.random.key_data(keys))[batch],
        rows=(place - first,),
    )


def _check_return(name: str, task: int, index: int, film: Footage, saved: float) -> None:
    replayed = float(film.rewards.sum())
    if not np.isclose(replayed, saved, rtol=RETURN_RTOL, atol=RETURN_ATOL):
        raise IdaqError(
            f"Episode {index + 1} of '{name}' on task {task} returns {replayed:,.3f} when it is "
            f"run again, and the saved results say {saved:,.3f}.",
            "Episodes repeat exactly with the versions and on the kind of machine that made the "
            "results; make the video there, or adapt again here under another --name.",
        )


# --- Where MuJoCo draws ---


@cache
def _offscreen_gl(wanted: str | None) -> str:
    """A value of MUJOCO_GL with which MuJoCo draws without a screen: `wanted`, or what works."""
    if find_spec("mujoco") is None:
        raise IdaqError("A video needs MuJoCo.", "Install it with `pip install 'idaq[metaworld]'`.")
    ways = (wanted.strip().lower(),) if wanted else WAYS_TO_DRAW
    for way in ways:
        if _can_draw(way):
            return way
    raise IdaqError(
        f"MuJoCo cannot draw without a screen here (tried MUJOCO_GL={' and '.join(ways)}).",
        "On a machine with a GPU install its EGL library and set MUJOCO_GL=egl; on any other "
        "`apt install libosmesa6` and set MUJOCO_GL=osmesa. Or leave out --video.",
    )


def _can_draw(way: str) -> bool:
    """Try it in a process of its own: what fails in a graphics library may end the process."""
    try:
        attempt = subprocess.run(
            [sys.executable, "-c", PROBE],
            env={**os.environ, "MUJOCO_GL": way},
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return False
    return attempt.returncode == 0


# --- How it looks ---


class Panel(NamedTuple):
    """One episode of a video and what is written above it."""

    film: Footage
    title: str
    meaning: str
    outcome: str


def draw_frames(header: Sequence[str], panels: Sequence[Panel], every: int) -> "list[Image]":
    """Pictures of all episodes side by side, under a header and captions, with the time."""
    from PIL import Image, ImageDraw

    _, height, width, _ = panels[0].film.frames.shape
    plain, bold = _font("DejaVuSans.ttf"), _font("DejaVuSans-Bold.ttf")
    captions_at = MARGIN + len(header) * LINE + GAP
    films_at = captions_at + 3 * LINE + GAP
    footer_at = films_at + height + GAP
    column = max(width, MIN_COLUMN)
    lefts = [MARGIN + i * (column + MARGIN) for i in range(len(panels))]
    size = (lefts[-1] + column + MARGIN, footer_at + LINE + MARGIN)

    # --- What stays the same in all pictures ---
    base = Image.new("RGB", size, BACKGROUND)
    draw = ImageDraw.Draw(base)
    for i, line in enumerate(header):
        at = (MARGIN, MARGIN + i * LINE)
        draw.text(at, line, TEXT if i == 0 else FAINT, bold if i == 0 else plain)
    for left, panel in zip(lefts, panels, strict=True):
        succeeded = panel.film.first_success is not None
        draw.text((left, captions_at), panel.title, TEXT, bold)
        draw.text((left, captions_at + LINE), panel.meaning, TEXT, plain)
        outcome_at = (left, captions_at + 2 * LINE)
        draw.text(outcome_at, panel.outcome, SUCCESS if succeeded else TEXT, plain)

    # --- What moves ---
    num_steps = max(len(panel.film.rewards) for panel in panels)
    images = []
    for i in range(max(len(panel.film.frames) for panel in panels)):
        step = min(i * every, num_steps)
        image = base.copy()
        draw = ImageDraw.Draw(image)
        for left, panel in zip(lefts, panels, strict=True):
            film = panel.film
            frame = film.frames[min(i, len(film.frames) - 1)]
            image.paste(Image.fromarray(frame), (left, films_at))
            if film.first_success is not None and step >= film.first_success:
                corners = (left, films_at, left + width - 1, films_at + height - 1)
                draw.rectangle(corners, outline=SUCCESS, width=4)
        bar_at, bar_end = MARGIN + 130, size[0] - MARGIN - 1
        middle = footer_at + LINE // 2
        draw.text((MARGIN, middle), f"step {step} of {num_steps}", FAINT, plain, anchor="lm")
        draw.rectangle((bar_at, middle - 2, bar_end, middle + 2), TRACK)
        share = round(step / max(num_steps, 1) * (bar_end - bar_at))
        draw.rectangle((bar_at, middle - 2, bar_at + share, middle + 2), BAR)
        images.append(image)
    return images


@cache
def _font(file: str) -> "FreeTypeFont":
    """A font of Matplotlib's, so that videos look like figures and the same everywhere."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / file, FONT_SIZE)


def write_gif(path: Path, images: "Sequence[Image]") -> None:
    """Write an endless GIF with one palette, so that what stands still takes no space."""
    from PIL import Image

    # The palette suits the first, the middle and the last picture.
    samples = [images[i] for i in sorted({0, len(images) // 2, len(images) - 1})]
    mosaic = Image.new("RGB", (images[0].width, images[0].height * len(samples)))
    for i, sample in enumerate(samples):
        mosaic.paste(sample, (0, i * sample.height))
    # An octree also keeps colours of few pixels, such as a goal's, which a median cut averages out.
    palette = mosaic.quantize(NUM_COLOURS, method=Image.Quantize.FASTOCTREE)
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    with output_file(path, VIDEO) as temporary:
        frames[0].save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=frames[1:],
            duration=[FRAME_MS] * (len(frames) - 1) + [LAST_FRAME_MS],
            loop=0,
            comment=GENERATOR,
        )
