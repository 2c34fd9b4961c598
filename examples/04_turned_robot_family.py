"""A task family of your own: tasks that differ in their dynamics and in nothing else.

A point is to move to the middle of the plane and stay there. Its motors are mounted at an angle
that it does not know: a push comes out turned, and the angle is the task. The reward, minus the
distance *before* the push, is the same in all tasks and says nothing about what a push did. So only
(s, a, s') tells which task an episode comes from; (s, a, r) tells only which task the acting
policy had in mind. In the logs that is the true one, and an encoder that does not see s' learns to
trust it. On a new task it is the agent's own guess, which every episode then confirms.

    python examples/04_turned_robot_family.py run turned-robot
    python examples/04_turned_robot_family.py run turned-robot --set algorithm.next_obs=false

`traits` says that dynamics differ, so presets let the encoder see s'; the second command turns that
off. docs/extending/family.md has the results and says what a family must offer.
"""

import sys
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import idaq
from idaq.envs.family import Step
from idaq.types import Action, Key, Scalar, Spec, Traits

NUM_TASKS = 100
MAX_PUSH = 0.2  # per axis and step
EXPERT_SPEED = 0.1  # per step
EXPERT_NOISE = 0.1  # standard deviation, per axis


def turned(vector: jax.Array, angle: Scalar) -> jax.Array:
    """A vector [2], turned anticlockwise."""
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([cosine * vector[0] - sine * vector[1], sine * vector[0] + cosine * vector[1]])


@dataclass(frozen=True)
class TurnedRobot:
    """Angles lie evenly on the circle; the point starts anywhere in a square around the middle."""

    name: str = "turned-robot"
    version: int = 1
    num_tasks: int = NUM_TASKS

    @property
    def spec(self) -> Spec:
        return Spec(
            obs_dim=2,
            action_dim=2,
            action_low=(-MAX_PUSH, -MAX_PUSH),
            action_high=(MAX_PUSH, MAX_PUSH),
            horizon=20,
        )

    @property
    def traits(self) -> Traits:
        """What presets go by."""
        return Traits(rewards_differ=False, dynamics_differ=True)

    @property
    def task_params(self) -> NDArray[np.float32]:
        return np.linspace(0.0, 2.0 * np.pi, NUM_TASKS, endpoint=False, dtype=np.float32)[:, None]

    def angle(self, task: Scalar) -> Scalar:
        return jnp.asarray(self.task_params)[task, 0]

    def reset(self, task: Scalar, key: Key) -> tuple[jax.Array, jax.Array]:
        position = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
        return position, position

    def step(
        self, task: Scalar, state: jax.Array, action: Action, key: Key
    ) -> tuple[jax.Array, Step]:
        push = jnp.clip(action, -MAX_PUSH, MAX_PUSH)
        position = state + turned(push, self.angle(task))
        never = jnp.zeros((), bool)
        reward = -jnp.linalg.norm(state)
        return position, Step(obs=position, reward=reward, terminated=never, success=never)

    def expert(self, task: Scalar, obs: jax.Array, key: Key) -> Action:
        """Straight to the middle, with noise: it knows the angle and turns its push back."""
        distance = jnp.linalg.norm(obs)
        way = -obs * jnp.minimum(1.0, EXPERT_SPEED / jnp.maximum(distance, 1e-6))
        noise = EXPERT_NOISE * jax.random.normal(key, way.shape)
        return jnp.clip(turned(way, -self.angle(task)) + noise, -MAX_PUSH, MAX_PUSH)


FAMILY = idaq.register(TurnedRobot())

if __name__ == "__main__":
    from idaq.cli import main

    sys.exit(main())
