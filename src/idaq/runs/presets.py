"""The resolved configuration of a run: the paper's hyper-parameters, and ours.

`paper` follows the paper's tables (Appendix C) and, where they are silent, the released code.
`default` is a stronger offline learner and the adaptation options that did best on training tasks
(docs/tuning.md says how they were chosen).
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from idaq.adapt.config import AdaptConfig
from idaq.algos import AlgorithmConfig
from idaq.algos.focal import Config, ContextConfig, EnsembleConfig
from idaq.envs.metaworld.experts import ml1_names
from idaq.errors import IdaqError
from idaq.learners.bc import BcConfig
from idaq.learners.sac_brac import SacBracConfig
from idaq.learners.td3_bc import Td3BcConfig

Preset = Literal["default", "paper"]
PRESETS: tuple[str, ...] = get_args(Preset)
AlgorithmName = Literal["focal", "op-cl", "macaw", "borel"]
ALGORITHMS: tuple[str, ...] = get_args(AlgorithmName)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long, and how often to say and save something."""

    num_updates: int = 50_000
    log_every_updates: int = 500
    checkpoint_every_updates: int = 5_000

    def __post_init__(self) -> None:
        for name in ("num_updates", "log_every_updates", "checkpoint_every_updates"):
            if getattr(self, name) < 1:
                raise IdaqError(f"{name} is {getattr(self, name)}.", "It must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides a run's numbers, besides its data and seeds."""

    algorithm: AlgorithmConfig
    train: TrainConfig
    adapt: AdaptConfig


def _paper_point() -> RunConfig:
    """Point-Robot and Point-Robot-Sparse: no BRAC, reward scale 100, context of 1,024."""
    return RunConfig(
        algorithm=Config(
            context_size=1024,
            learner=SacBracConfig(divergence="none", reward_scale=100.0),
            ensemble=EnsembleConfig(),
        ),
        train=TrainConfig(num_updates=50_000),
        adapt=AdaptConfig(reference="farthest", num_candidates=20, keep_percent=10.0),
    )


def _default_point() -> RunConfig:
    hidden = (64, 64)
    return RunConfig(
        algorithm=Config(
            encoder_hidden=hidden,
            normalise=True,
            batch_size=64,
            context_size=64,
            learner=Td3BcConfig(hidden=hidden, discount=0.9),
            ensemble=EnsembleConfig(hidden=hidden),
        ),
        train=TrainConfig(num_updates=2_000, log_every_updates=100, checkpoint_every_updates=500),
        adapt=AdaptConfig(
            reference="farthest-first", iterate="untried", accept="improvement", final="best"
        ),
    )


def _paper_ml1() -> RunConfig:
    """Meta-World ML1: metric weight 100, BRAC, context of 400, ten episodes."""
    return RunConfig(
        algorithm=Config(metric_weight=100.0, ensemble=EnsembleConfig()),
        train=TrainConfig(num_updates=300_000),
        adapt=AdaptConfig(
            num_reference_episodes=5,
            num_iterative_episodes=5,
            keep_percent=20.0,
            reference="farthest",
            num_candidates=5,
        ),
    )


def _default_ml1() -> RunConfig:
    hidden = (256, 256)
    return RunConfig(
        algorithm=Config(
            latent_dim=5,
            encoder_hidden=hidden,
            normalise=True,
            batch_size=64,
            context_size=64,
            context_shift=3.0,
            hide_unrelated=True,
            learner=BcConfig(hidden=hidden, learning_rate=1e-3),
            ensemble=EnsembleConfig(hidden=hidden),
        ),
        train=TrainConfig(num_updates=10_000, checkpoint_every_updates=2_000),
        adapt=AdaptConfig(
            num_reference_episodes=5,
            num_iterative_episodes=5,
            keep_percent=20.0,
            reference="farthest-first",
            iterate="search",
            accept="improvement",
            final="best",
        ),
    )


def _paper_cheetah() -> RunConfig:
    """Cheetah-Vel: BRAC as in the paper's table, context of 100, ten episodes."""
    return RunConfig(
        algorithm=Config(context_size=100, ensemble=EnsembleConfig()),
        train=TrainConfig(num_updates=100_000),
        adapt=_paper_ml1().adapt,
    )


def _default_cheetah() -> RunConfig:
    hidden = (256, 256)
    return RunConfig(
        algorithm=Config(
            latent_dim=5,
            encoder_hidden=hidden,
            normalise=True,
            batch_size=64,
            context_size=64,
            learner=BcConfig(hidden=hidden, learning_rate=1e-3),
            ensemble=EnsembleConfig(hidden=hidden),
        ),
        train=TrainConfig(num_updates=10_000, checkpoint_every_updates=2_000),
        adapt=_default_ml1().adapt,
    )


_POINT = ("point-robot", "point-robot-sparse")
_CHEETAH = ("cheetah-vel",)
_ML1 = tuple(f"ml1/{name}" for name in ml1_names())
_RESOLVERS = {
    ("default", _POINT): _default_point,
    ("paper", _POINT): _paper_point,
    ("default", _CHEETAH): _default_cheetah,
    ("paper", _CHEETAH): _paper_cheetah,
    ("default", _ML1): _default_ml1,
    ("paper", _ML1): _paper_ml1,
}


def resolve(preset: str, family: str, algorithm: str = "focal") -> RunConfig:
    """The configuration of a preset on a family, with the models where the algorithm has any."""
    if preset not in PRESETS:
        raise IdaqError(f"There is no preset '{preset}'.", f"Known: {', '.join(PRESETS)}.")
    check_algorithm(algorithm)
    focal = _resolve_focal(preset, family)
    if algorithm == "focal":
        return focal
    from idaq.runs.baseline_presets import resolve_baseline

    return resolve_baseline(preset, family, algorithm, focal)


def check_algorithm(name: str) -> None:
    """Refuse a name that is no algorithm."""
    if name not in ALGORITHMS:
        raise IdaqError(f"There is no algorithm '{name}'.", f"Known: {', '.join(ALGORITHMS)}.")


def _resolve_focal(preset: str, family: str) -> RunConfig:
    for (name, families), make in _RESOLVERS.items():
        if name == preset and family in families:
            return make()
    raise IdaqError(
        f"Preset '{preset}' does not cover the family '{family}'.",
        f"It covers: {', '.join(_POINT + _CHEETAH)} and ml1/....",
    )


def with_ensemble_size(config: RunConfig, size: int) -> RunConfig:
    """The same run with `size` models; 0 trains none."""
    if size < 0:
        raise IdaqError(f"The ensemble size L is {size}.", "Give 0 (no models) or at least 2.")
    if size == 1:
        raise IdaqError("The ensemble size L is 1.", "A variance needs at least 2 models.")
    algorithm = config.algorithm
    if not isinstance(algorithm, ContextConfig):
        if size:
            raise IdaqError(f"'{algorithm.kind}' trains no models.", "Leave out --ensemble-size.")
        return config
    changed = replace(algorithm.ensemble or EnsembleConfig(), size=size) if size else None
    return replace(config, algorithm=replace(algorithm, ensemble=changed))


def has_models(config: RunConfig) -> bool:
    """Whether the run trains reward and dynamics models."""
    algorithm = config.algorithm
    return isinstance(algorithm, ContextConfig) and algorithm.ensemble is not None
