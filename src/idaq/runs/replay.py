"""Episodes of a simulator, run again in front of a camera.

The results of a simulator hold no observations, so an episode is run again with the same agent,
hypothesis, task and key; it is refused if its return differs from the saved one.

MuJoCo chooses its graphics library when it is first imported, so a fresh process draws.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from idaq.engine.pool import WorkerPool
from idaq.engine.units import UNIT_EPISODES, PolicyUnit, reset_seed
from idaq.envs.family import HostFamily, is_host_family
from idaq.errors import IdaqError
from idaq.runs.adapt_stage import adaptation_key, load_agent
from idaq.runs.results import RawResults, load_results
from idaq.runs.run import Run
from idaq.types import TaskSplit

if TYPE_CHECKING:
    from idaq.envs.family import Simulator

MAX_FRAMES = 100  # of an episode, besides the one before its first step
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


class Footage(NamedTuple):
    """What a camera saw of one episode."""

    frames: NDArray[np.uint8]  # [pictures, height, width, 3]: start, every `every` steps, end
    rewards: NDArray[np.float32]  # [steps]
    success: NDArray[np.bool_]  # [steps]

    @property
    def first_success(self) -> int | None:
        """The step that first succeeded, counted from 1."""
        return int(np.argmax(self.success)) + 1 if self.success.any() else None


class Film(NamedTuple):
    """Episodes of the first seed's adaptation to one of its test tasks."""

    name: str  # of the results
    seed: int
    task: int
    roles: dict[int, list[str]]  # of every episode that is shown; one may have two
    footage: dict[int, Footage]  # of the same ones
    every: int  # steps from one picture to the next


@dataclass(frozen=True)
class FilmUnit:
    """One episode of an agent, filmed; for a worker that does nothing else."""

    episode: PolicyUnit  # with one row to run
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
    return np.asarray(episodes.action), np.asarray(episodes.valid)


@lru_cache(maxsize=1)
def _simulator(family: HostFamily) -> "Simulator":
    return family.make_env("rgb_array")


# --- Which episodes ---


def check_replay(run: Run, task: int | None = None) -> None:
    """Refuse what can be known to be wrong with a replay before there are results."""
    camera_family(run)
    if run.seeds():
        place_of(run, task)
    _offscreen_gl(os.environ.get("MUJOCO_GL"))


def film_adaptation(run: Run, name: str, task: int | None = None) -> Film:
    """Film adaptation to one test task, by default the first: its first, best and last episode.

    The best is the *selected* one: it has the lowest uncertainty of those before the last.
    """
    check_replay(run, task)
    seed, (place, split) = run.seeds()[0], place_of(run, task)
    roles = choose_episodes(load_results(run, name, seed), place)
    every = -(-run.family.spec.horizon // MAX_FRAMES)
    footage = dict(zip(roles, film(run, name, roles, task=task, every=every), strict=True))
    return Film(name, seed, int(split.test[place]), roles, footage, every)


def choose_episodes(results: RawResults, place: int) -> dict[int, list[str]]:
    """The episodes to show, in order, with their roles; an episode may have two.

    No episode is selected if the method has no uncertainty to select by.
    """
    last = results["returns"].shape[1] - 1
    roles: dict[int, list[str]] = {}
    if last > 0:
        roles[0] = ["first"]
        judged = results["uncertainty"][place, :last] if "uncertainty" in results else np.array([])
        if np.isfinite(judged).any():
            roles.setdefault(int(np.nanargmin(judged)), []).append("selected")
    return roles | {last: ["final"]}


def film(
    run: Run, name: str, episodes: Iterable[int], *, task: int | None = None, every: int = 1
) -> list[Footage]:
    """Film episodes of the first seed's adaptation to a task: a picture every `every` steps."""
    check_replay(run, task)
    results = load_results(run, name, run.seeds()[0])
    episodes, (place, split) = list(episodes), place_of(run, task)
    with WorkerPool(1) as pool:
        units = [_episode(run, results, split, index, place, pool) for index in episodes]
        gl = _offscreen_gl(os.environ.get("MUJOCO_GL"))
        footage = list(pool.results([FilmUnit(unit, gl, every) for unit in units]))
    for index, each in zip(episodes, footage, strict=True):
        saved = float(results["returns"][place, index])
        _check_return(name, int(split.test[place]), index, each, saved)
    return footage


def camera_family(run: Run) -> HostFamily:
    """The run's family, which must have a simulator with a camera."""
    family = run.family
    if not is_host_family(family):
        raise IdaqError(
            f"'{family.name}' has no camera, so there is no video of it.",
            "Do without one; `idaq report` draws its episodes.",
        )
    return family


def place_of(run: Run, task: int | None) -> tuple[int, TaskSplit]:
    """The index of `task` (None: the first) among the first seed's test tasks, and its split."""
    seed = run.seeds()[0]
    split = run.split_of(seed)
    tasks = split.test.tolist()
    if task is not None and task not in tasks:
        raise IdaqError(
            f"Task {task} is no test task of seed {seed}.",
            f"Give one of {', '.join(map(str, tasks))} as `task`.",
        )
    return (0 if task is None else tasks.index(task)), split


def _episode(
    run: Run,
    results: RawResults,
    split: TaskSplit,
    index: int,
    place: int,
    pool: WorkerPool,
) -> PolicyUnit:
    """The episode as `idaq.engine.meta_test` ran it: same key, same row of the same batch."""
    if "hypotheses" not in results:
        raise IdaqError(
            "These results hold no hypotheses to run again: adapted weights are too large to save.",
            "Videos are of algorithms with a context encoder or a belief.",
        )
    seed = run.seeds()[0]
    agent = load_agent(run, seed, len(split.train))
    keys = jax.random.split(jax.random.fold_in(adaptation_key(seed), 1 + index), len(split.test))
    first = place - place % UNIT_EPISODES
    batch = slice(first, first + UNIT_EPISODES)
    return PolicyUnit(
        family=camera_family(run),
        policy=run.algorithm,
        agent_file=pool.share_agent(agent),
        hypotheses=results["hypotheses"][batch, index],
        tasks=np.asarray(split.test[batch], np.int64),
        keys=np.asarray(jax.random.key_data(keys))[batch],
        rows=(place - first,),
    )


def _check_return(name: str, task: int, index: int, footage: Footage, saved: float) -> None:
    replayed = float(footage.rewards.sum())
    if not np.isclose(replayed, saved, rtol=RETURN_RTOL, atol=RETURN_ATOL):
        raise IdaqError(
            f"Episode {index + 1} of '{name}' on task {task} returns {replayed:,.3f} when it is "
            f"run again, and the saved results say {saved:,.3f}.",
            "Episodes repeat exactly with the versions and on the kind of machine that made the "
            "results; make the video there, or adapt again here under another `name`.",
        )


# --- Where MuJoCo draws ---


@cache
def _offscreen_gl(wanted: str | None) -> str:
    """A value of MUJOCO_GL that draws without a screen; if `wanted` is set, only that is tried."""
    if find_spec("mujoco") is None:
        raise IdaqError("A video needs MuJoCo.", "Install it with `pip install 'idaq[metaworld]'`.")
    ways = (wanted.strip().lower(),) if wanted else WAYS_TO_DRAW
    for way in ways:
        if _can_draw(way):
            return way
    raise IdaqError(
        f"MuJoCo cannot draw without a screen here (tried MUJOCO_GL={' and '.join(ways)}).",
        "On a machine with a GPU install its EGL library and set MUJOCO_GL=egl; on any other "
        "`apt install libosmesa6` and set MUJOCO_GL=osmesa. Or do without a video.",
    )


def _can_draw(way: str) -> bool:
    """Try it in a separate process, as a failing graphics library may end its process."""
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
