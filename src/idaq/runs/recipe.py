"""What a run is to be, before it has a directory."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from idaq.adapt.search import Searches
from idaq.algos.base import Algorithm
from idaq.algos.entries import ALGORITHMS, components_of, make_algorithm, version_of
from idaq.config import to_dict
from idaq.envs.family import TaskFamily, check_family, reward_function
from idaq.errors import IdaqError
from idaq.runs.identity import identities
from idaq.runs.manifest import Identity
from idaq.runs.own_code import check_own_code
from idaq.settings import RunConfig, Split


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides a run's numbers, besides its seeds."""

    family: TaskFamily
    preset: str
    config: RunConfig
    data: dict[str, Any]  # as `Identity.data`
    split: Split

    @cached_property
    def algorithm(self) -> Algorithm:
        return make_algorithm(self.config.algorithm, self.family.spec)

    @cached_property
    def identity(self) -> Identity:
        return Identity(
            family=self.family.name,
            family_version=self.family.version,
            algo=self.algorithm.name,
            algo_version=version_of(self.algorithm.name),
            preset=self.preset,
            split=self.split,
            data=self.data,
            config=to_dict(self.config),
            components=identities(components_of(self.config.algorithm)),
        )

    def check(self) -> None:
        """Refuse what can be known to be wrong before an update is done."""
        check_own_code()
        check_family(self.family)
        Searches.of(self.config.adapt)
        last_phase, num_updates = self.algorithm.phases[-1][0], self.config.train.num_updates
        if last_phase >= num_updates:
            setting = ALGORITHMS.get_entry(self.algorithm.name).phase_setting
            where = f" (`algorithm.{setting}`)" if setting else ""
            raise IdaqError(
                f"The run has {num_updates:,} updates, and '{self.algorithm.name}' trains its "
                f"policy from update {last_phase:,} on.",
                f"Raise `train.num_updates`, or shorten the phases before{where}.",
            )
        if self.algorithm.relabels and reward_function(self.family) is None:
            raise IdaqError(
                f"'{self.family.name}' cannot compute the rewards of other tasks' transitions.",
                "Train with `algorithm.relabel=False`.",
            )
