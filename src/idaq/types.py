"""The shapes that cross module borders."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

PyTree = Any
Array = jax.Array | NDArray[Any]
IntArray = NDArray[np.int64]


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
    needs_demonstrations: bool = False  # to train behaviour policies
    horizon: int = 0


class TaskSplit(NamedTuple):
    """Disjoint, sorted task indices."""

    train: IntArray
    test: IntArray


class Transition(NamedTuple):
    """A batch of transitions; every field has the same leading axes."""

    obs: Any  # [..., obs_dim]
    action: Any  # [..., action_dim], in the environment's own units
    reward: Any  # [...]
    next_obs: Any  # [..., obs_dim]
    terminated: Any  # [...] bool: the task ended here; a time limit is not an end


class Episodes(NamedTuple):
    """A batch of episodes, padded to the horizon; `valid` marks the steps that took place."""

    obs: Any  # [..., horizon, obs_dim]
    action: Any  # [..., horizon, action_dim]
    reward: Any  # [..., horizon]
    next_obs: Any  # [..., horizon, obs_dim]
    terminated: Any  # [..., horizon] bool
    success: Any  # [..., horizon] bool; all False where the family has no notion of success
    valid: Any  # [..., horizon] bool

    @property
    def returns(self) -> Any:
        """Undiscounted return per episode, [...]."""
        return (self.reward * self.valid).sum(axis=-1)
