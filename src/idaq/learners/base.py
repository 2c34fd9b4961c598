"""What a learner is: the offline policy behind a task embedding z.

A learner is a handful of pure functions on pytrees, gathered in an entry. Its state is what
training carries on; its policy's parameters are what an agent takes along. A configuration names
its learner by `kind`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import jax

from idaq.config import Component, check_configured
from idaq.registry import Registry
from idaq.types import (
    Action,
    Embeddings,
    Hypothesis,
    Key,
    Metrics,
    Params,
    Scalar,
    Spec,
    Transition,
    Vector,
)

Config = TypeVar("Config", bound="LearnerConfig")
State = TypeVar("State")


class LearnerConfig(Component):
    """The settings of any learner."""

    registry: ClassVar[str] = "learner"
    hidden: tuple[int, ...]


def _one_batch(config: LearnerConfig) -> int:
    return 1


@dataclass(frozen=True, kw_only=True)
class Critic(Generic[Config, State]):
    """What an objective that trains its encoder through a critic asks of the learner."""

    target: Callable[[Config, State, Transition, Embeddings, Key], Vector]
    """(config, state, batch, z, key): what Q is trained towards, [n]."""
    loss: Callable[[Params, Transition, Embeddings, Vector], Scalar]
    """(the state's `q`, batch, z, target): Q's loss at the logged actions, []."""


@dataclass(frozen=True, kw_only=True)
class LearnerEntry(Generic[Config, State]):
    """A learner. Batches are in the networks' units; z is [n, latent_dim], without gradient."""

    name: str
    label: str
    config: type[Config]
    init: Callable[[Config, Spec, int, Key], State]
    """(config, spec, latent_dim, key): fresh networks."""
    update: Callable[[Config, State, Transition, Embeddings, Key], tuple[State, Metrics]]
    """(config, state, batches [num_batches, n, ...], z, key): one step, and metrics."""
    trained_policy: Callable[[Config, State], Params]
    """(config, state): the parameters that an agent takes along."""
    act: Callable[[Params, jax.Array, Hypothesis], Action]
    """(policy's parameters, obs, z): the deterministic action in [-1, 1]."""
    num_batches: Callable[[Config], int] = _one_batch
    """How many batches one update takes."""
    critic: Critic[Config, State] | None = None
    operations: Callable[[Config, Spec, int], int] | None = None
    """(config, spec, latent_dim): floating-point operations of an update, per row of a batch."""
    version: int | None = None
    """Raised whenever results change; without one, the learner is identified by its source."""


AnyLearner = LearnerEntry[Any, Any]

LEARNERS: Registry[AnyLearner] = Registry(
    "learner",
    "learners",
    lambda entry: isinstance(entry, LearnerEntry),
    check=partial(check_configured, LearnerConfig),
    built_in=(
        "idaq.learners.sac_brac:ENTRY",
        "idaq.learners.td3_bc:ENTRY",
        "idaq.learners.bc:ENTRY",
    ),
)


def learner_of(config: LearnerConfig) -> AnyLearner:
    """The learner of a configuration."""
    return LEARNERS.get_entry(config.kind)
