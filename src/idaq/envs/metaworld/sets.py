"""Meta-World ML1 (Appendix D): 50 task sets of a simulated robot arm, 50 hidden goals each.

The sets have the paper's names; their environments are today's `-v3` ones of metaworld 3.x, with
the v2 reward. A set's tasks are the 50 training goals of `metaworld.ML1(name, seed=1337)`, or of
another seed: `ml1/reach@2024`. The
goal's three places in the 39-dimensional observation are zero for agents and in the data; the
scripted expert alone is told where the goal is.

This is the only file that imports metaworld (the extra `idaq[metaworld]`).
"""

import pickle
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from idaq.envs.family import Info, name_of_draw
from idaq.envs.metaworld.experts import FIXES, Fix, ml1_names
from idaq.envs.metaworld.sawyer_speed import speed_up, speed_up_script
from idaq.errors import IdaqError
from idaq.types import Spec, Traits

if TYPE_CHECKING:
    from idaq.envs.family import Expert

PREFIX = "ml1/"
NUM_TASKS = 50
TASK_SEED = 1337
HORIZON = 500
OBS_DIM, ACTION_DIM, GOAL_DIM = 39, 4, 3
OBJECT = slice(4, 7)  # the first object's position in the observation
EXPERT_NOISE = 0.1  # standard deviation, on every dimension of the action
FRAME_SIZE = 320  # pixels of a picture's side
CAMERA_LOOKS_AT = (-0.03, 0.68, 0.14)  # metres: a little above the middle of the table
CAMERA_AZIMUTH, CAMERA_ELEVATION = 125.0, -28.0  # degrees
CAMERA_DISTANCE = 1.3
NEED_DEMONSTRATIONS = ("peg-insert-side",)  # three attempts without them failed
DEMONSTRATED = ("num_rounds=120", "demonstration_rounds=10")
HOLD_GAIN = 10.0  # action per metre that the hand is away from where it is to stay


@dataclass(frozen=True)
class Ml1:
    """One of the 50 task sets."""

    task_set: str
    draw: int | None = None  # of the goals: Meta-World's seed
    version: int = 1

    @property
    def name(self) -> str:
        return name_of_draw(PREFIX + self.task_set, self.draw)

    def redrawn(self, draw: int) -> "Ml1":
        return replace(self, draw=draw)

    @property
    def spec(self) -> Spec:
        return Spec(
            obs_dim=OBS_DIM,
            action_dim=ACTION_DIM,
            action_low=(-1.0,) * ACTION_DIM,
            action_high=(1.0,) * ACTION_DIM,
            horizon=HORIZON,
            has_success=True,
        )

    @property
    def traits(self) -> Traits:
        return Traits(
            group="ml1",
            measure="score",
            policies_of="" if self.draw is None else PREFIX + self.task_set,
            behaviour=DEMONSTRATED * (self.task_set in NEED_DEMONSTRATIONS),
        )

    @property
    def num_tasks(self) -> int:
        return NUM_TASKS

    @property
    def task_params(self) -> NDArray[np.float32]:
        """What metaworld draws per task: the goal's and mostly also the object's position."""
        _, tasks = _benchmark(self.task_set, self.draw)
        return np.stack([pickle.loads(task.data)["rand_vec"] for task in tasks]).astype(np.float32)

    def check_simulator(self) -> None:
        _metaworld()

    def make_env(self, render_mode: str | None = None) -> "Ml1Env":
        return Ml1Env(self.task_set, render_mode, self.draw)

    def make_expert(self, env: gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]) -> "Expert":
        simulator = env.unwrapped
        if not isinstance(simulator, Ml1Env):
            raise TypeError(f"the expert of {self.name} needs a simulator of it")
        return ScriptedExpert(self.task_set, simulator)


def ml1_families() -> list[Ml1]:
    """All 50 sets, by name."""
    return [Ml1(name) for name in ml1_names()]


class Ml1Env(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One simulator of a set; `reset(options={"task": i})` puts it on goal i, which stays hidden.

    Metaworld's own randomness is not used: an episode depends on the task and the actions alone.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 80}  # noqa: RUF012

    def __init__(
        self, task_set: str, render_mode: str | None = None, draw: int | None = None
    ) -> None:
        env_class, self._tasks = _benchmark(task_set, draw)
        make = speed_up(env_class)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._env = make()
        self.render_mode = render_mode
        self._camera: _Camera | None = None
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS_DIM,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTION_DIM,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[NDArray[np.float32], Info]:
        super().reset(seed=seed)
        task = int((options or {}).get("task", 0))
        if not 0 <= task < NUM_TASKS:
            raise IdaqError(f"There is no task {task}.", f"Give 0 to {NUM_TASKS - 1}.")
        self._env.set_task(self._tasks[task])
        obs, _ = self._env.reset()
        return self._visible(obs), {"success": False}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, Info]:
        action = np.minimum(np.maximum(np.asarray(action, np.float32), -1.0), 1.0)
        obs, reward, _, truncated, info = self._env.step(action)
        success = bool(info["success"] > 0)
        return self._visible(obs), float(reward), False, bool(truncated), {"success": success}

    def render(self) -> NDArray[np.uint8] | None:
        """The scene as pixels, [FRAME_SIZE, FRAME_SIZE, 3]; the goal is shown as a ball."""
        if self.render_mode is None:
            return None
        if self._camera is None:
            self._camera = _Camera(self._env.model)
        return self._camera.picture(self._env.data)

    def close(self) -> None:
        if self._camera is not None:
            self._camera.close()
        self._env.close()

    @property
    def goal(self) -> NDArray[np.float64]:
        """For the scripted expert alone."""
        return np.asarray(self._env._get_pos_goal(), np.float64)

    @staticmethod
    def _visible(obs: NDArray[np.float64]) -> NDArray[np.float32]:
        visible = obs.astype(np.float32)
        visible[-GOAL_DIM:] = 0.0
        return visible


class _Camera:
    """A view over the table from beside the robot, which Meta-World's own cameras do not have.

    MuJoCo draws with the backend that MUJOCO_GL named at its first import. Shadows
    and reflections are left out: without a GPU they take four fifths of the time.
    """

    def __init__(self, model: Any) -> None:
        mujoco = import_module("mujoco")  # comes with metaworld, which is an extra
        self._view = mujoco.MjvCamera()
        self._view.lookat[:] = CAMERA_LOOKS_AT
        self._view.azimuth, self._view.elevation = CAMERA_AZIMUTH, CAMERA_ELEVATION
        self._view.distance = CAMERA_DISTANCE
        self._renderer = mujoco.Renderer(model, FRAME_SIZE, FRAME_SIZE)
        self._flags = (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION)

    def picture(self, data: Any) -> NDArray[np.uint8]:
        self._renderer.update_scene(data, camera=self._view)
        for flag in self._flags:
            self._renderer.scene.flags[flag] = 0
        picture: NDArray[np.uint8] = self._renderer.render()
        return picture

    def close(self) -> None:
        self._renderer.close()


class ScriptedExpert:
    """Metaworld's scripted policy with Gaussian noise on its actions, fixed where it fails.

    Many of the scripts succeed and then walk away. A set's `Fix` (`idaq.envs.metaworld.experts`)
    may make the hand stay where it is, and says what else is done differently.
    """

    def __init__(self, task_set: str, env: Ml1Env, fix: Fix | None = None) -> None:
        self._env = env
        self._fix = fix or FIXES.get(task_set, Fix())
        scripts = _metaworld().policies.ENV_POLICY_MAP
        self._make_script = speed_up_script(scripts[f"{task_set}-v3"])
        self.reset()

    def reset(self) -> None:
        self._script = self._make_script()
        self._successes = 0
        self._gripper = 0.0
        self._hold_at: NDArray[np.float32] | None = None

    def act(
        self, obs: NDArray[np.float32], info: Info, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        self._successes = self._successes + 1 if info["success"] else 0
        hand = obs[:3]
        if self._hold_at is None and self._successes >= self._fix.hold_after:
            self._hold_at = hand + np.array([0.0, 0.0, self._fix.hold_lift], np.float32)
            if self._fix.hold_gripper is not None:
                self._gripper = self._fix.hold_gripper
        if self._hold_at is None:
            action = self._scripted(obs)
            self._gripper = float(action[3])
        else:
            action = np.append(HOLD_GAIN * (self._hold_at - hand), self._gripper)
        action = np.clip(action, -1.0, 1.0) + EXPERT_NOISE * rng.standard_normal(ACTION_DIM)
        return np.clip(action, -1.0, 1.0).astype(np.float32)

    def _scripted(self, obs: NDArray[np.float32]) -> NDArray[np.float64]:
        full = obs.astype(np.float64)
        full[-GOAL_DIM:] = self._env.goal + self._fix.shift_goal
        full[OBJECT] += self._fix.shift_object
        action = np.asarray(self._script.get_action(full), np.float64)
        if self._fix.open_wide and action[3] == 0.0:
            action[3] = -1.0
        return np.clip(action, -1.0, 1.0)


@lru_cache(maxsize=4)
def _benchmark(task_set: str, draw: int | None = None) -> tuple[Any, list[Any]]:
    """The set's environment class and its 50 tasks, always in the same order."""
    name = f"{task_set}-v3"
    benchmark = _metaworld().ML1(name, seed=TASK_SEED if draw is None else draw)
    return benchmark.train_classes[name], list(benchmark.train_tasks)


def _metaworld() -> Any:
    try:
        import metaworld
        import metaworld.policies
    except ImportError as error:
        raise IdaqError(
            f"The task families '{PREFIX}...' need metaworld, which cannot be imported ({error}).",
            "Install it with `pip install 'idaq[metaworld]'`.",
        ) from error
    return metaworld
