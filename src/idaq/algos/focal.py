"""FOCAL (Li et al., 2021): a context encoder trained by a metric loss alone (Section 2.3).

Policy, critics and models see its embedding z as a constant. The paper's learner is soft
actor-critic with BRAC; preset `default` takes TD3+BC or cloning. `idaq.algos.context_based` says
what FOCAL shares with other context-based algorithms, and where that departs from the released
code. One more departure: the metric loss averages each kind of pair by its exact count.
"""

from dataclasses import dataclass
from typing import Literal

from idaq.algos.context_based import MetricConfig
from idaq.algos.entries import ObjectiveEntry, SpeedCase
from idaq.objectives.metric import Metric
from idaq.types import Spec


@dataclass(frozen=True, kw_only=True)
class FocalConfig(MetricConfig):
    """FOCAL adds nothing."""

    kind: Literal["focal"] = "focal"


def make_objective(config: FocalConfig, spec: Spec) -> Metric:
    """The encoder is trained by the metric loss alone."""
    return Metric(encoder=config.encoder(spec), weight=config.metric_weight)


ENTRY = ObjectiveEntry(
    name="focal",
    label="FOCAL",
    version=1,
    config=FocalConfig,
    make=make_objective,
    speed_cases=(
        SpeedCase(preset="paper", group="ml1", authors_seconds=0.58),
        SpeedCase(preset="paper", group="ml1", with_judge=True, authors_seconds=0.58),
        SpeedCase(preset="paper", group="point", authors_seconds=0.87),
        SpeedCase(preset="default", group="ml1", label="cloning"),
        SpeedCase(preset="default", group="point", label="TD3+BC"),
    ),
)
