"""The options of online adaptation, checked where they are made."""

import math
from dataclasses import dataclass
from typing import Literal

from idaq.errors import IdaqError


@dataclass(frozen=True, kw_only=True)
class AdaptConfig:
    """Section 4.1 and Appendix C. Episode counts include the final, scored episode."""

    num_reference_episodes: int = 10  # n_r
    num_iterative_episodes: int = 10  # n_i; the last one runs the final policy
    keep_percent: float = 10.0  # k: the threshold is this quantile of the reference uncertainties
    episodes_per_hypothesis: int = 1  # n_e
    reference: Literal["farthest", "farthest-first", "prior", "zero"] = "farthest"
    num_candidates: int = 20  # of which `farthest` takes the one farthest from those tried
    iterate: Literal["posterior", "untried", "search"] = "posterior"
    accept: Literal["threshold", "improvement"] = "threshold"
    final: Literal["posterior", "best"] = "posterior"
    num_expert_episodes: int = 1  # of expert context

    def __post_init__(self) -> None:
        if self.num_reference_episodes < 1:
            _refuse("n_r", self.num_reference_episodes, "at least 1")
        if self.num_iterative_episodes < 1:
            _refuse("n_i", self.num_iterative_episodes, "at least 1: the final episode")
        if not (math.isfinite(self.keep_percent) and 0.0 < self.keep_percent <= 100.0):
            _refuse("k", self.keep_percent, "a percentage above 0 and up to 100")
        if self.episodes_per_hypothesis < 1:
            _refuse("n_e", self.episodes_per_hypothesis, "at least 1")
        if self.num_candidates < 1:
            _refuse("num_candidates", self.num_candidates, "at least 1")
        if self.num_expert_episodes < 1:
            _refuse("num_expert_episodes", self.num_expert_episodes, "at least 1")
        if self.num_reference_episodes % self.episodes_per_hypothesis:
            raise IdaqError(
                f"n_r = {self.num_reference_episodes} is not a multiple of "
                f"n_e = {self.episodes_per_hypothesis}.",
                "Every reference hypothesis runs n_e episodes.",
            )
        if (self.num_iterative_episodes - 1) % self.episodes_per_hypothesis:
            raise IdaqError(
                f"n_i - 1 = {self.num_iterative_episodes - 1} is not a multiple of "
                f"n_e = {self.episodes_per_hypothesis}.",
                "Every iterative hypothesis runs n_e episodes, and one final episode follows.",
            )

    @property
    def num_episodes(self) -> int:
        return self.num_reference_episodes + self.num_iterative_episodes

    @property
    def num_reference_hypotheses(self) -> int:
        return self.num_reference_episodes // self.episodes_per_hypothesis


def _refuse(name: str, value: float, allowed: str) -> None:
    raise IdaqError(f"{name} is {value}.", f"It must be {allowed}.")
