"""What an online learner has seen: a ring of transitions on the device.

A transition knows its task by index; what the learner is told of the task is looked up, so that a
row is not stored with its condition.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from idaq.types import Array, Key, Places, Rows, Scalar, Spec, Transition


class Replay(NamedTuple):
    """Rows are written in blocks of one size; the capacity is a multiple of it."""

    rows: Transition  # [capacity, ...]; actions are scaled to [-1, 1]
    task: Places  # [capacity]
    num_written: Scalar  # []: all rows ever written
    num_kept: Scalar  # []: the first rows, which are never overwritten
    conditions: jax.Array  # [num_tasks, condition_dim]: what the learner is told of a task


def empty_replay(spec: Spec, capacity: int, conditions: Array, num_kept: int = 0) -> Replay:
    """Room for `capacity` transitions of tasks with these conditions; the first `num_kept` stay."""
    rows = Transition(
        obs=jnp.zeros((capacity, spec.obs_dim)),
        action=jnp.zeros((capacity, spec.action_dim)),
        reward=jnp.zeros(capacity),
        next_obs=jnp.zeros((capacity, spec.obs_dim)),
        terminated=jnp.zeros(capacity),
    )
    return Replay(
        rows=rows,
        task=jnp.zeros(capacity, jnp.int32),
        num_written=jnp.zeros((), jnp.int32),
        num_kept=jnp.asarray(num_kept, jnp.int32),
        conditions=jnp.asarray(conditions, jnp.float32),
    )


@partial(jax.jit, donate_argnums=0)
def add_rows(replay: Replay, rows: Transition, task: Array) -> Replay:
    """Write a block; once the ring is full, over the oldest one that need not stay."""
    written, kept, capacity = replay.num_written, replay.num_kept, replay.task.shape[0]
    start = jnp.where(written < capacity, written, kept + (written - kept) % (capacity - kept))

    def write(ring: jax.Array, block: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(ring, block.astype(ring.dtype), start, 0)

    return replay._replace(
        rows=jax.tree.map(write, replay.rows, rows),
        task=write(replay.task, jnp.asarray(task)),
        num_written=replay.num_written + task.shape[0],
    )


def sample_replay(replay: Replay, num: int, key: Key) -> tuple[Transition, Rows]:
    """`num` random transitions and their tasks' conditions."""
    num_rows = jnp.minimum(replay.num_written, replay.task.shape[0])
    index = jax.random.randint(key, (num,), 0, num_rows)
    return Transition(*(field[index] for field in replay.rows)), replay.conditions[
        replay.task[index]
    ]
