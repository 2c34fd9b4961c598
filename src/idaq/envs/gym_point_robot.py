"""Point-Robot as Gymnasium environments; importing this module registers them.

    gymnasium.make("idaq.envs.gym_point_robot:idaq/PointRobot-v0", task=3)

imports it as well. The dynamics are those of `PointRobot`.
"""

from typing import Literal

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from idaq.envs.family import Info
from idaq.envs.point_robot import NUM_TASKS, PointRobot
from idaq.errors import IdaqError

FloatArray = NDArray[np.float32]


class PointRobotEnv(gymnasium.Env[FloatArray, FloatArray]):
    """One task of Point-Robot; without a task, each reset draws one from the seeded generator."""

    def __init__(
        self, task: int | None = None, reward: Literal["dense", "sparse"] = "dense"
    ) -> None:
        if task is not None and not 0 <= task < NUM_TASKS:
            raise IdaqError(f"Task {task} does not exist.", f"Choose one of 0 to {NUM_TASKS - 1}.")
        self.family = PointRobot(reward)
        self._fixed_task = task
        self._task = 0
        self._position = np.zeros(2, np.float32)
        self._step = jax.jit(self.family.step)
        self._key = jax.random.key(0)  # the dynamics are deterministic and never use it
        spec = self.family.spec
        self.action_space = spaces.Box(
            np.asarray(spec.action_low, np.float32), np.asarray(spec.action_high, np.float32)
        )
        reach = np.full(2, spec.horizon * spec.action_high[0] * 1.01, np.float32)
        self.observation_space = spaces.Box(-reach, reach)

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[FloatArray, Info]:
        super().reset(seed=seed, options=options)
        drawn = self._fixed_task is None
        self._task = (
            int(self.np_random.integers(NUM_TASKS)) if drawn else int(self._fixed_task or 0)
        )
        self._position = np.zeros(2, np.float32)
        return self._position.copy(), {}

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, Info]:
        task = np.int32(self._task)
        _, result = self._step(task, self._position, np.asarray(action), self._key)
        self._position = np.asarray(result.obs)
        return self._position.copy(), float(result.reward), False, False, {}


REWARDS: dict[str, Literal["dense", "sparse"]] = {
    "idaq/PointRobot-v0": "dense",
    "idaq/PointRobotSparse-v0": "sparse",
}
for _id, _reward in REWARDS.items():
    gymnasium.register(
        id=_id,
        entry_point="idaq.envs.gym_point_robot:PointRobotEnv",
        max_episode_steps=PointRobot(_reward).spec.horizon,  # truncation, by Gymnasium's wrapper
        kwargs={"reward": _reward},
    )
