"""What a judge is: something learned from the logs that has an opinion of an episode.

A judge is trained beside a context-based algorithm, on the batches that the learner takes and with
the embedding z as a constant. What it says of an episode is for uncertainties to interpret
(`idaq.adapt.uncertainty`): an uncertainty names the judge that it reads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from idaq.config import Component
from idaq.registry import Registry
from idaq.types import Array, PyTree, Spec, Transition


class JudgeConfig(Component):
    """The settings of any judge."""

    registry: ClassVar[str] = "judge"
    default_kind: ClassVar[str | None] = "ensemble"  # the only one, once


class Trained(NamedTuple):
    """A judge in training."""

    params: PyTree
    opt: PyTree


@dataclass(frozen=True, kw_only=True)
class JudgeEntry:
    """A judge. Rows are in the networks' units; z is [n, latent_dim], without gradient."""

    name: str
    label: str
    config: type[JudgeConfig]
    init: Callable[[Any, Spec, int, Array], Trained]
    """(config, spec, latent_dim, key): fresh networks."""
    update: Callable[[Any, Trained, Transition, Array], tuple[Trained, dict[str, Any]]]
    """(config, state, batch [n, ...], z): one step, and metrics."""
    read: Callable[[PyTree, Transition, Array, Array], Any]
    """(params, rows [horizon, ...], valid [horizon], z [latent_dim]): its word on an episode."""
    operations: Callable[[Any, Spec, int], int] | None = None
    """(config, spec, latent_dim): floating-point operations of an update, per row of a batch."""
    version: int | None = None
    """Raised whenever results change; without one, the judge is identified by its source."""


JUDGES: Registry[JudgeEntry] = Registry(
    "judge",
    "judges",
    lambda entry: isinstance(entry, JudgeEntry),
    built_in=("idaq.judges.ensemble:ENTRY",),
)


def judge_of(config: JudgeConfig) -> JudgeEntry:
    """The judge of a configuration."""
    return JUDGES.get_entry(config.kind)
