"""The resolved configuration of a run: what is trained, for how long, and how it adapts.

`idaq.config` reads and writes it; the presets of every algorithm fill it in. Beside it are the
choices and defaults that Python and the command line share; importing them loads nothing heavy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict

from idaq.config import Component, added, require
from idaq.errors import IdaqError

PresetName = Literal["default", "paper"]
Split = Literal["test", "validation"]
Quality = Literal["expert", "medium", "random", "replay"]  # of data; see `idaq.behaviour.quality`
Accept = Literal["threshold", "improvement"]
Final = Literal["posterior", "best"]

DEFAULT_PRESET: PresetName = "default"
DEFAULT_SPLIT: Split = "test"
DEFAULT_QUALITY: Quality = "expert"
DEFAULT_SEEDS = 3
MAX_EPISODES = 100_000  # of one adaptation's stage; anything larger is a typing error
DEFAULT_TRAJECTORIES = 45  # per task (Appendix C, table of environment settings)


class AlgorithmConfig(Component):
    """The settings of any algorithm."""

    registry: ClassVar[str] = "algorithm"
    std_floor: float  # the least deviation of a normalised observation, in its own units


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long to train, and how often to report and save."""

    num_updates: int = 50_000
    log_every_updates: int = 500
    checkpoint_every_updates: int = 5_000

    def __post_init__(self) -> None:
        require(self, "num_updates", "log_every_updates", "checkpoint_every_updates", least=1)


@dataclass(frozen=True, kw_only=True)
class AdaptConfig:
    """Section 4.1 and Appendix C. Episode counts include the final, scored episode."""

    num_reference_episodes: int = 10  # n_r
    num_iterative_episodes: int = 10  # n_i; the last one runs the final policy
    keep_percent: float = 10.0  # k: the threshold is this quantile of the reference uncertainties
    episodes_per_hypothesis: int = 1  # n_e
    reference: str = "farthest"  # a search of `idaq.adapt.search`: its first hypotheses
    num_candidates: int = 20  # of which `farthest` takes the one farthest from those tried
    iterate: str = "posterior"  # a search of `idaq.adapt.search`: its next hypothesis
    accept: Accept = "threshold"
    final: Final = "posterior"
    stop_below: float = added(0.0)  # share of what the logs promise; 0: use the whole budget
    num_expert_episodes: int = 1  # of expert context
    fine_tuning_steps: int = added(20)  # of gradient-based algorithms, after every online episode
    fine_tuning_rate: float = added(1e-5)

    def __post_init__(self) -> None:
        counts = ("num_reference_episodes", "num_iterative_episodes", "episodes_per_hypothesis")
        for name in (*counts, "num_candidates", "num_expert_episodes"):
            if not 1 <= getattr(self, name) <= MAX_EPISODES:
                _refuse(name, getattr(self, name), f"at least 1 and at most {MAX_EPISODES:,}")
        if not (math.isfinite(self.keep_percent) and 0.0 < self.keep_percent <= 100.0):
            _refuse("keep_percent", self.keep_percent, "a percentage above 0 and up to 100")
        require(self, "stop_below", least=0, most=1)
        require(self, "fine_tuning_steps", least=0, most=10_000)
        require(self, "fine_tuning_rate", above=0, most=1)
        repeats = self.episodes_per_hypothesis
        if self.num_reference_episodes % repeats:
            multiple = f"a multiple of `adapt.episodes_per_hypothesis` ({repeats})"
            _refuse("num_reference_episodes", self.num_reference_episodes, multiple)
        if (self.num_iterative_episodes - 1) % repeats:
            multiple = f"a multiple of `adapt.episodes_per_hypothesis` ({repeats}), and one more"
            _refuse("num_iterative_episodes", self.num_iterative_episodes, multiple)

    @property
    def num_episodes(self) -> int:
        return self.num_reference_episodes + self.num_iterative_episodes

    @property
    def num_reference_hypotheses(self) -> int:
        return self.num_reference_episodes // self.episodes_per_hypothesis


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides a run's numbers, besides its data and seeds."""

    MOVED: ClassVar[Mapping[str, str]] = {  # settings that used to be elsewhere
        "algorithm.fine_tuning_steps": "adapt.fine_tuning_steps",
        "algorithm.fine_tuning_rate": "adapt.fine_tuning_rate",
    }

    algorithm: AlgorithmConfig
    train: TrainConfig
    adapt: AdaptConfig


def _refuse(name: str, value: float, allowed: str) -> None:
    raise IdaqError(f"`adapt.{name}` is {value}.", f"It must be {allowed}.")


class Stages(TypedDict):
    """The settings of `AdaptConfig` that a budget consists of."""

    num_reference_episodes: int
    num_iterative_episodes: int


def split_episodes(num_episodes: int, episodes_per_hypothesis: int = 1) -> Stages:
    """A whole budget as settings of `AdaptConfig`: `replace(config, **split_episodes(20))`.

    Half is the reference stage, rounded down to whole hypotheses, but at least one. The iterative
    stage is the rest, the final episode included.
    """
    repeats = max(1, episodes_per_hypothesis)  # of less than one, `AdaptConfig` will tell
    if num_episodes <= repeats:
        raise IdaqError(f"`episodes` is {num_episodes}.", f"It must be at least {repeats + 1}.")
    if over := (num_episodes - 1) % repeats:
        below = num_episodes - over
        raise IdaqError(
            f"`episodes` is {num_episodes}.",
            f"It must be a multiple of `adapt.episodes_per_hypothesis` ({repeats}), and one more: "
            f"{below} or {below + repeats}.",
        )
    reference = max(repeats, num_episodes // 2 // repeats * repeats)
    return Stages(num_reference_episodes=reference, num_iterative_episodes=num_episodes - reference)
