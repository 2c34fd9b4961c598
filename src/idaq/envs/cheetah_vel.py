"""Cheetah-Vel (Appendix D): MuJoCo's HalfCheetah is to run at a velocity that it is not told.

The tasks differ in the target velocity alone: 100 of them, one seeded draw from [0, 3] m/s (and
another one for `cheetah-vel@7`). The
reward is minus the distance to the target velocity, minus 0.05 times the squared action. The body,
its 17-dimensional observation and the random start are those of Gymnasium's `HalfCheetah-v5`; an
episode is cut off after 200 steps and never ends by itself.

Gymnasium's class spends as long in Python as in MuJoCo. `CheetahVelEnv` calls MuJoCo itself, with
the same model and the same calls, so its numbers are the same, bit for bit, in about three fifths
of the time. What is left out is `mj_rnePostConstraint`, whose contact forces nothing reads.

This file needs MuJoCo (the extra `idaq[mujoco]`).
"""

from dataclasses import dataclass, replace
from importlib import import_module
from importlib.resources import as_file, files
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from idaq.envs.family import Info, name_of_draw
from idaq.errors import IdaqError
from idaq.types import Spec, Traits

NAME = "cheetah-vel"
NUM_TASKS = 100
TASK_SEED = 1337
MAX_VELOCITY = 3.0  # metres per second
HORIZON = 200
OBS_DIM, ACTION_DIM = 17, 6
CONTROL_COST = 0.05
FRAME_SKIP = 5  # MuJoCo's steps of 0.01 s in one step of the environment
START_NOISE = 0.1
CAMERA, FRAME_SIZE = "track", 320  # the model's own camera, which follows it; pixels of a side


def target_velocities(draw: int | None = None) -> NDArray[np.float32]:
    """In metres per second, [100]."""
    seed = TASK_SEED if draw is None else draw
    drawn = np.random.default_rng(seed).uniform(0.0, MAX_VELOCITY, NUM_TASKS)
    return drawn.astype(np.float32)


@dataclass(frozen=True)
class CheetahVel:
    """The family. It has no scripted expert: its behaviour policies are learned."""

    draw: int | None = None  # of the velocities
    version: int = 1

    @property
    def name(self) -> str:
        return name_of_draw(NAME, self.draw)

    def redrawn(self, draw: int) -> "CheetahVel":
        return replace(self, draw=draw)

    @property
    def spec(self) -> Spec:
        return Spec(
            obs_dim=OBS_DIM,
            action_dim=ACTION_DIM,
            action_low=(-1.0,) * ACTION_DIM,
            action_high=(1.0,) * ACTION_DIM,
            horizon=HORIZON,
        )

    @property
    def traits(self) -> Traits:
        return Traits(group="cheetah", policies_of="" if self.draw is None else NAME)

    @property
    def num_tasks(self) -> int:
        return NUM_TASKS

    @property
    def task_params(self) -> NDArray[np.float32]:
        return target_velocities(self.draw)[:, None]

    def check_simulator(self) -> None:
        _mujoco()

    def make_env(self, render_mode: str | None = None) -> "CheetahVelEnv":
        return CheetahVelEnv(render_mode, self.draw)


class CheetahVelEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One simulator; `reset(seed=..., options={"task": i})` puts it on target velocity i."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, draw: int | None = None) -> None:
        mujoco = _mujoco()
        self._model = _load_model(mujoco)
        self._data = mujoco.MjData(self._model)
        self._mj_step, self._mj_forward = mujoco.mj_step, mujoco.mj_forward
        self._mj_reset = mujoco.mj_resetData
        # Views: MuJoCo keeps writing to the same memory.
        self._qpos, self._qvel, self._ctrl = self._data.qpos, self._data.qvel, self._data.ctrl
        self._seconds_per_step = self._model.opt.timestep * FRAME_SKIP
        self._targets = target_velocities(draw).astype(np.float64).tolist()
        self._target, self._num_steps = 0.0, 0
        self.render_mode = render_mode
        self._renderer: Any = None
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS_DIM,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTION_DIM,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[NDArray[np.float32], Info]:
        super().reset(seed=seed)
        task = int((options or {}).get("task", 0))
        if not 0 <= task < NUM_TASKS:
            raise IdaqError(f"There is no task {task}.", f"Give 0 to {NUM_TASKS - 1}.")
        self._target, self._num_steps = self._targets[task], 0
        self._mj_reset(self._model, self._data)
        # In this order, from this generator: as HalfCheetah-v5 draws them.
        self._qpos += self.np_random.uniform(-START_NOISE, START_NOISE, self._model.nq)
        self._qvel += START_NOISE * self.np_random.standard_normal(self._model.nv)
        self._mj_forward(self._model, self._data)
        return self._obs(), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, Info]:
        action = np.minimum(np.maximum(np.asarray(action, np.float32), -1.0), 1.0)
        before = float(self._qpos[0])
        self._ctrl[:] = action
        self._mj_step(self._model, self._data, FRAME_SKIP)
        velocity = (float(self._qpos[0]) - before) / self._seconds_per_step
        self._num_steps += 1
        cost = CONTROL_COST * float(action.dot(action))
        reward = -abs(velocity - self._target) - cost
        return self._obs(), reward, False, self._num_steps >= HORIZON, {"velocity": velocity}

    def render(self) -> Any:
        """The running body from the side, [FRAME_SIZE, FRAME_SIZE, 3]."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            self._renderer = _mujoco().Renderer(self._model, FRAME_SIZE, FRAME_SIZE)
        self._renderer.update_scene(self._data, camera=CAMERA)
        return self._renderer.render()

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()

    def _obs(self) -> NDArray[np.float32]:
        obs = np.empty(OBS_DIM, np.float32)
        obs[:8] = self._qpos[1:]  # all but the distance travelled
        obs[8:] = self._qvel
        return obs


def _load_model(mujoco: Any) -> Any:
    """Gymnasium's own description of the body."""
    asset = files("gymnasium").joinpath("envs", "mujoco", "assets", "half_cheetah.xml")
    with as_file(asset) as file:
        return mujoco.MjModel.from_xml_path(str(file))


def _mujoco() -> Any:
    try:
        return import_module("mujoco")
    except ImportError as error:
        raise IdaqError(
            f"The task family '{NAME}' needs MuJoCo, which cannot be imported ({error}).",
            "Install it with `pip install 'idaq[mujoco]'`.",
        ) from error
