"""A training of behaviour policies so small that it takes a second."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from idaq.behaviour.config import BehaviourConfig
from idaq.behaviour.ladder import Ladder, Rung
from idaq.behaviour.sac import SacConfig
from idaq.behaviour.training import train_policies
from idaq.envs import POINT_FAMILIES
from idaq.envs.point_robot import PointRobot
from idaq.types import Traits

FAMILY = POINT_FAMILIES["point-robot"]
SAC = SacConfig(policy_hidden=(8,), critic_hidden=(8,), batch_size=16, learning_rate=1e-2)
CONFIG = BehaviourConfig(
    sac=SAC,
    num_rounds=6,
    episodes_per_round=3,
    updates_per_round=4,
    replay_rounds=4,  # fewer than there are: the ring comes round
    random_rounds=1,
    evaluate_every_rounds=2,
)
SETTINGS = (  # the same on the command line
    *("--set", "sac.policy_hidden=[8]", "sac.critic_hidden=[8]", "sac.batch_size=16"),
    *("--set", "sac.learning_rate=0.01", "sac.discount=0.99", "num_rounds=6"),
    *("--set", "episodes_per_round=3", "updates_per_round=4", "replay_rounds=4"),
    *("--set", "random_rounds=1", "evaluate_every_rounds=2"),
)


NO_TRAITS = Traits()


@dataclass(frozen=True)
class Mine(PointRobot):
    """A family that is registered nowhere."""

    traits: Traits = NO_TRAITS
    name: str = "mine"


def train(path: Path, **options: Any) -> Ladder:
    return train_policies(FAMILY, path, options.pop("config", CONFIG), quiet=True, **options)


def made_up(returns: Iterable[float], expert_return: float | None = None) -> Ladder:
    """A ladder with these returns and no files."""
    rungs = tuple(
        Rung(number=n, updates=10 * n, steps=60 * n, mean_return=value, mode_return=value)
        for n, value in enumerate(returns)
    )
    return Ladder(
        path=Path("nowhere"),
        family=FAMILY.name,
        family_version=1,
        algo_version=1,
        sac=SAC,
        expert_return=expert_return,
        rungs=rungs,
        provenance={},
    )
