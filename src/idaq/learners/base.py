"""What a learner is: the offline policy behind a task embedding z.

A learner is a handful of pure functions on pytrees, gathered in an entry. Its state is what
training carries on; its policy's parameters are what an agent takes along. A configuration names
its learner by `kind`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from idaq.config import Component
from idaq.registry import Registry
from idaq.types import Array, PyTree, Spec, Transition

Metrics = dict[str, Any]


class LearnerConfig(Component):
    """The settings of any learner."""

    registry: ClassVar[str] = "learner"
    hidden: tuple[int, ...]


def _one_batch(config: Any) -> int:
    return 1


@dataclass(frozen=True, kw_only=True)
class Critic:
    """What an objective that trains its encoder through a critic asks of the learner."""

    target: Callable[[Any, PyTree, Transition, Array, Array], Any]
    """(config, state, batch, z, key): what Q is trained towards, [n]."""
    loss: Callable[[PyTree, Transition, Array, Array], Any]
    """(the state's `q`, batch, z, target): Q's loss at the logged actions, []."""


@dataclass(frozen=True, kw_only=True)
class LearnerEntry:
    """A learner. Batches are in the networks' units; z is [n, latent_dim], without gradient."""

    name: str
    label: str
    config: type[LearnerConfig]
    init: Callable[[Any, Spec, int, Array], PyTree]
    """(config, spec, latent_dim, key): fresh networks."""
    update: Callable[[Any, PyTree, Transition, Array, Array], tuple[PyTree, Metrics]]
    """(config, state, batches [num_batches, n, ...], z, key): one step, and metrics."""
    trained_policy: Callable[[Any, PyTree], PyTree]
    """(config, state): the parameters that an agent takes along."""
    act: Callable[[PyTree, Array, Array], Any]
    """(policy's parameters, obs, z): the deterministic action in [-1, 1]."""
    num_batches: Callable[[Any], int] = _one_batch
    """How many batches one update takes."""
    critic: Critic | None = None
    operations: Callable[[Any, Spec, int], int] | None = None
    """(config, spec, latent_dim): floating-point operations of an update, per row of a batch."""
    version: int | None = None
    """Raised whenever results change; without one, the learner is identified by its source."""


LEARNERS: Registry[LearnerEntry] = Registry(
    "learner",
    "learners",
    lambda entry: isinstance(entry, LearnerEntry),
    built_in=(
        "idaq.learners.sac_brac:ENTRY",
        "idaq.learners.td3_bc:ENTRY",
        "idaq.learners.bc:ENTRY",
    ),
)


def learner_of(config: LearnerConfig) -> LearnerEntry:
    """The learner of a configuration."""
    return LEARNERS.get_entry(config.kind)
