"""What a judge is: something learned from the logs that can assess an episode.

A judge is trained beside a context-based algorithm, on the learner's batches and with the embedding
z as a constant. Uncertainties interpret what it says about an episode (`idaq.adapt.uncertainty`):
each names the judge that it reads, if any.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from idaq.config import Component, check_configured
from idaq.registry import Registry
from idaq.types import (
    Array,
    Embeddings,
    Hypothesis,
    Key,
    Metrics,
    OptState,
    Params,
    PyTree,
    Spec,
    Transition,
)

Config = TypeVar("Config", bound="JudgeConfig")


class JudgeConfig(Component):
    """The settings of any judge."""

    registry: ClassVar[str] = "judge"
    default_kind: ClassVar[str | None] = "ensemble"  # once the only one, and not named when saved


class Trained(NamedTuple):
    """A judge in training."""

    params: Params
    opt: OptState


@dataclass(frozen=True, kw_only=True)
class JudgeEntry(Generic[Config]):
    """A judge. Rows are in the networks' units; z is [n, latent_dim], without gradient."""

    name: str
    label: str
    config: type[Config]
    init: Callable[[Config, Spec, int, Key], Trained]
    """(config, spec, latent_dim, key): fresh networks."""
    update: Callable[[Config, Trained, Transition, Embeddings, Key], tuple[Trained, Metrics]]
    """(config, state, batch [n, ...], z, key): one step, and metrics."""
    read: Callable[[Params, Transition, Array, Hypothesis], PyTree]
    """(params, rows [horizon, ...], valid [horizon], z [latent_dim]): its opinion of an episode."""
    operations: Callable[[Config, Spec, int], int] | None = None
    """(config, spec, latent_dim): floating-point operations of an update, per row of a batch."""
    version: int | None = None
    """Raised whenever results change; without one, the judge is identified by its source."""


AnyJudge = JudgeEntry[Any]

JUDGES: Registry[AnyJudge] = Registry(
    "judge",
    "judges",
    lambda entry: isinstance(entry, JudgeEntry),
    check=partial(check_configured, JudgeConfig),
    built_in=("idaq.judges.ensemble:ENTRY",),
)


def judge_of(config: JudgeConfig) -> AnyJudge:
    """The judge of a configuration."""
    return JUDGES.get_entry(config.kind)
