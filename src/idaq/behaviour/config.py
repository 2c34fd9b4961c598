"""How the behaviour policies of each family are trained."""

from dataclasses import dataclass, field

from idaq.behaviour.sac import SacConfig
from idaq.config import override, require
from idaq.envs.family import TaskFamily, traits_of
from idaq.errors import IdaqError

MAX_ROUNDS = 1_000_000
MAX_EPISODES = 10_000


@dataclass(frozen=True, kw_only=True)
class BehaviourConfig:
    """Training proceeds in rounds: some episodes and, meanwhile, updates on earlier rounds."""

    sac: SacConfig = field(default_factory=SacConfig)
    num_rounds: int
    episodes_per_round: int
    updates_per_round: int
    replay_rounds: int  # that the learner remembers
    random_rounds: int  # at the start, of uniform actions
    demonstration_rounds: int = 0  # before those, by the scripted expert; never forgotten
    evaluate_every_rounds: int

    def __post_init__(self) -> None:
        require(self, "num_rounds", "replay_rounds", least=1, most=MAX_ROUNDS)
        require(self, "episodes_per_round", least=1, most=MAX_EPISODES)
        require(self, "updates_per_round", "evaluate_every_rounds", least=1, most=MAX_ROUNDS)
        require(self, "random_rounds", least=1, most=MAX_ROUNDS)
        require(self, "demonstration_rounds", least=0, most=self.replay_rounds - 1)


def _point() -> BehaviourConfig:
    return BehaviourConfig(
        sac=SacConfig(
            policy_hidden=(64, 64), critic_hidden=(64, 64), learning_rate=1e-3, discount=0.9
        ),
        num_rounds=100,
        episodes_per_round=20,
        updates_per_round=50,
        replay_rounds=100,
        random_rounds=2,
        evaluate_every_rounds=2,
    )


def _cheetah() -> BehaviourConfig:
    return BehaviourConfig(
        sac=SacConfig(
            policy_hidden=(128, 128), critic_hidden=(128, 128), learning_rate=1e-3, discount=0.98
        ),
        num_rounds=200,
        episodes_per_round=20,
        updates_per_round=1_000,
        replay_rounds=200,
        random_rounds=3,
        evaluate_every_rounds=5,
    )


def _ml1() -> BehaviourConfig:
    """Every goal once in a round; rewards of up to 10 are scaled to about one."""
    hidden = (256, 256, 256)
    return BehaviourConfig(
        sac=SacConfig(
            policy_hidden=(256, 256), critic_hidden=hidden, batch_size=512, reward_scale=0.1
        ),
        num_rounds=180,
        episodes_per_round=50,
        updates_per_round=5_000,
        replay_rounds=40,
        random_rounds=2,
        evaluate_every_rounds=10,
    )


_BY_GROUP = {"point": _point, "cheetah": _cheetah, "ml1": _ml1}


def behaviour_config(family: TaskFamily) -> BehaviourConfig:
    """The settings that train a family's behaviour policies.

    They are those of its group or, failing that, of its kind (simulated or not), with the family's
    own changes.
    """
    traits = traits_of(family)
    if not traits.has_environment:
        raise IdaqError(
            f"'{family.name}' has no environment to train behaviour policies in.",
            "Log its data yourself.",
        )
    if traits.policies_of:
        raise IdaqError(
            f"The policies that log '{family.name}' are those of '{traits.policies_of}', which has "
            "the same tasks.",
            f"Train those of {traits.policies_of}.",
        )
    config = _BY_GROUP.get(traits.group, _cheetah if traits.simulator else _point)()
    for setting in traits.behaviour:
        config = override(config, setting)
    return config
