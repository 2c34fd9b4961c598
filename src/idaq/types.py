"""The types that modules share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

PyTree = Any  # of arrays; only its owner looks inside
Params = PyTree  # of networks
OptState = PyTree  # of an optimiser
Carry = PyTree  # a memory within an episode
AnyArray = NDArray[Any]  # NumPy's, of any type
Array = jax.Array | AnyArray
IntArray = NDArray[np.int64]

# JAX arrays, named by the shape that a function of one seed and one task sees; outside `vmap` there
# is one more axis for each.
Key = jax.Array  # [], of random numbers
Scalar = jax.Array  # []
Vector = jax.Array  # [n]
Rows = jax.Array  # [n, ...], one for each of a batch
Embeddings = jax.Array  # [n, latent_dim], of the tasks that a batch's rows belong to
Mask = jax.Array  # [n] bool
Places = jax.Array  # whole numbers, to index with
Action = jax.Array  # [..., action_dim]
Hypothesis = jax.Array  # [latent_dim]: what an agent believes of its task, one vector
Hypotheses = jax.Array  # [num, latent_dim]
Metrics = dict[str, Scalar]  # of an update, to log
RewardFunction = Callable[[jax.Array, jax.Array, Action, jax.Array], jax.Array]
"""(task, obs, action, next_obs): the reward."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What an algorithm may know of a task family: sizes and bounds, nothing of the tasks."""

    obs_dim: int
    action_dim: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    horizon: int
    has_success: bool = False


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a task family is like, for presets, tables and settings; nothing of its tasks."""

    group: str = ""  # of families that share presets and settings
    simulator: bool = False  # whether episodes run in a simulator, not in JAX
    has_environment: bool = True
    measure: Literal["return", "score"] = "return"  # what tables show
    rewards_differ: bool = True  # between tasks
    dynamics_differ: bool = False
    behaviour: tuple[str, ...] = ()  # settings that train its behaviour policies, name=value
    policies_of: str = ""  # a family of like tasks whose behaviour policies log its data
    horizon: int = 0


class TaskSplit(NamedTuple):
    """Disjoint, sorted task indices."""

    train: IntArray
    test: IntArray


class Transition(NamedTuple):
    """A batch of transitions on the device; every field has the same leading axes."""

    obs: jax.Array  # [..., obs_dim]
    action: jax.Array  # [..., action_dim], scaled to [-1, 1]
    reward: jax.Array  # [...]
    next_obs: jax.Array  # [..., obs_dim]
    terminated: jax.Array  # [...], 1 or true: the task ended here; a time limit is not an end


class Episodes(NamedTuple):
    """A batch of episodes, padded to the horizon; `valid` marks the steps that took place."""

    obs: Array  # [..., horizon, obs_dim]
    action: Array  # [..., horizon, action_dim]
    reward: Array  # [..., horizon]
    next_obs: Array  # [..., horizon, obs_dim]
    terminated: Array  # [..., horizon] bool
    success: Array  # [..., horizon] bool; all False where the family has no notion of success
    valid: Array  # [..., horizon] bool

    @property
    def returns(self) -> Array:
        """Undiscounted return per episode, [...]."""
        return (self.reward * self.valid).sum(axis=-1)
