"""Point-Robot and Point-Robot-Sparse (Appendix D): a point on the plane, a goal on a half circle.

The tasks differ in the goal alone; 100 goals lie evenly on the unit half circle. (In other draws,
`point-robot@7` for example, they lie at random on it.) The point starts
at the origin and an action moves it by at most 0.1 along each axis. The dense reward is minus the
distance to the goal after the move; the sparse one is (0.2 - distance) / 0.2 inside a radius of
0.2 and zero outside.

The behaviour policy heads straight for the goal, as fast as the bounds allow, with Gaussian noise
of half the bound on every axis. The noise is chosen so that the datasets return what the paper
reports for its own (-5.72 dense, 7.28 sparse).
"""

from dataclasses import dataclass, replace
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from idaq.envs.family import Step, name_of_draw
from idaq.types import Action, Key, Scalar, Spec, Traits

NUM_TASKS = 100
MAX_DISPLACEMENT = 0.1  # per axis and step
GOAL_RADIUS = 0.2  # inside it the sparse reward is positive
EXPERT_NOISE = 0.05  # standard deviation, per axis


def goals(draw: int | None = None) -> NDArray[np.float32]:
    """On the unit half circle, [100, 2]: evenly, or at random where a draw is given."""
    angles = np.linspace(0.0, np.pi, NUM_TASKS)
    if draw is not None:
        angles = np.random.default_rng(draw).uniform(0.0, np.pi, NUM_TASKS)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)


@dataclass(frozen=True)
class PointRobot:
    """Both versions of the family; they differ in the reward alone."""

    reward: Literal["dense", "sparse"] = "dense"
    draw: int | None = None  # of the goals
    version: int = 1

    @property
    def name(self) -> str:
        name = "point-robot" if self.reward == "dense" else "point-robot-sparse"
        return name_of_draw(name, self.draw)

    def redrawn(self, draw: int) -> "PointRobot":
        return replace(self, draw=draw)

    @property
    def spec(self) -> Spec:
        return Spec(
            obs_dim=2,
            action_dim=2,
            action_low=(-MAX_DISPLACEMENT,) * 2,
            action_high=(MAX_DISPLACEMENT,) * 2,
            horizon=20,
        )

    @property
    def traits(self) -> Traits:
        is_usual = self.reward == "dense" and self.draw is None
        policies_of = "" if is_usual else "point-robot"  # a sparse reward teaches little
        return Traits(group="point", policies_of=policies_of)

    @property
    def num_tasks(self) -> int:
        return NUM_TASKS

    @property
    def task_params(self) -> NDArray[np.float32]:
        return goals(self.draw)

    def reset(self, task: Scalar, key: Key) -> tuple[jax.Array, jax.Array]:
        position = jnp.zeros(2)
        return position, position

    def step(
        self, task: Scalar, state: jax.Array, action: Action, key: Key
    ) -> tuple[jax.Array, Step]:
        position = state + jnp.clip(action, -MAX_DISPLACEMENT, MAX_DISPLACEMENT)
        reward = self.reward_of(task, state, action, position)
        never = jnp.zeros((), bool)
        return position, Step(obs=position, reward=reward, terminated=never, success=never)

    def reward_of(
        self, task: Scalar, obs: jax.Array, action: Action, next_obs: jax.Array
    ) -> Scalar:
        """The reward that a task gives for a transition of any task."""
        distance: Scalar = jnp.linalg.norm(next_obs - jnp.asarray(goals(self.draw))[task])
        if self.reward == "dense":
            return -distance
        return jnp.maximum(GOAL_RADIUS - distance, 0.0) / GOAL_RADIUS

    def expert(self, task: Scalar, obs: jax.Array, key: Key) -> Action:
        direction = jnp.asarray(goals(self.draw))[task] - obs
        overshoot = jnp.max(jnp.abs(direction)) / MAX_DISPLACEMENT
        action = direction / jnp.maximum(overshoot, 1.0)
        noise = EXPERT_NOISE * jax.random.normal(key, action.shape)
        return jnp.clip(action + noise, -MAX_DISPLACEMENT, MAX_DISPLACEMENT)
