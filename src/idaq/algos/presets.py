"""What the presets of all algorithms share: how long to train, how to adapt, and encoders.

`paper` follows the paper's tables (Appendix C) and, where they are silent, the released code.
`default` is a stronger offline learner and the adaptation options that did best on training tasks
(docs/tuning.md says how they were chosen). A preset is for a *kind* of family (`Traits`): for a
group that the paper knows, or else for what the family is like.
"""

from typing import get_args

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.judges.ensemble import EnsembleConfig
from idaq.learners.bc import BcConfig
from idaq.learners.sac_brac import SacBracConfig
from idaq.learners.td3_bc import Td3BcConfig
from idaq.settings import AdaptConfig, PresetName, TrainConfig
from idaq.types import Traits

PRESETS: tuple[str, ...] = get_args(PresetName)
TEN_EPISODES: Json = {
    "num_reference_episodes": 5,
    "num_iterative_episodes": 5,
    "keep_percent": 20.0,
}
REPLAY_BEST: Json = {"accept": "improvement", "final": "best"}
BAYESIAN: Json = {"reference": "bayesian", "iterate": "bayesian", **REPLAY_BEST}
UNTRIED: Json = {"reference": "farthest-first", "iterate": "untried", **REPLAY_BEST}
FAR_THEN_NEAR: Json = {"reference": "farthest-first", "iterate": "search", **REPLAY_BEST}
LOGGED_ROWS = 256  # of each training task: what contradictions are looked for in
SHORT_HORIZON = 50  # steps; in shorter episodes a discount of 0.9 still sees the end


def check_preset(name: str) -> None:
    """Refuse a name that is no preset."""
    if name not in PRESETS:
        raise IdaqError(f"There is no preset '{name}'.", f"Known: {', '.join(PRESETS)}.")


def is_small(traits: Traits) -> bool:
    """Whether episodes cost next to nothing, so that more are tried; networks are small.

    For a family known only from logs, a short horizon is the only sign of this.
    """
    if not traits.has_environment:
        return traits.horizon <= SHORT_HORIZON
    return not traits.simulator


def discount_of(traits: Traits) -> float:
    """A discount that sees the end of an episode."""
    return 0.9 if traits.horizon <= SHORT_HORIZON else 0.99


def schedule(
    preset: str, traits: Traits, *, embeddings: bool = True
) -> tuple[TrainConfig, AdaptConfig]:
    """How long context-based algorithms train on a kind of family, and how agents adapt.

    Without `embeddings`, hypotheses are no points of a space but networks, say.
    """
    if preset == "paper":
        if is_small(traits):
            return TrainConfig(num_updates=50_000), AdaptConfig(keep_percent=10.0)
        updates = 300_000 if traits.group == "ml1" else 100_000
        return TrainConfig(num_updates=updates), AdaptConfig(**TEN_EPISODES, num_candidates=5)
    if is_small(traits):
        train = TrainConfig(num_updates=2_000, log_every_updates=100, checkpoint_every_updates=500)
        return train, AdaptConfig(**(BAYESIAN if embeddings else UNTRIED))
    train = TrainConfig(num_updates=10_000, checkpoint_every_updates=2_000)
    return train, AdaptConfig(**TEN_EPISODES, **(BAYESIAN if embeddings else FAR_THEN_NEAR))


def context_settings(preset: str, traits: Traits) -> Json:
    """Encoder, learner and models of context-based algorithms on a kind of family."""
    sees_effects = {"next_obs": True} if traits.dynamics_differ else {}
    if preset == "paper":
        return _paper_settings(traits) | sees_effects
    hidden = (64, 64) if is_small(traits) else (256, 256)
    settings: Json = {
        "encoder_hidden": hidden,
        "normalise": True,
        "logged_rows": LOGGED_ROWS,
        "batch_size": 64,
        "context_size": 64,
        "judge": EnsembleConfig(hidden=hidden),
    }
    if is_small(traits):
        settings["learner"] = Td3BcConfig(hidden=hidden, discount=discount_of(traits))
    else:
        settings["latent_dim"] = 5
        settings["learner"] = BcConfig(hidden=hidden, learning_rate=1e-3)
    if traits.group == "ml1":
        settings |= {"context_shift": 3.0, "hide_unrelated": True}
    return settings | sees_effects


def _paper_settings(traits: Traits) -> Json:
    """SAC with BRAC; without BRAC's penalty, and with rewards times 100, on Point-Robot.

    Contexts are of 400 transitions on ML1, 1,024 on Point-Robot and 100 elsewhere.
    """
    settings: Json = {"judge": EnsembleConfig()}
    if traits.group == "point":
        learner = SacBracConfig(divergence="none", reward_scale=100.0)
        return settings | {"context_size": 1024, "learner": learner}
    return settings if traits.group == "ml1" else settings | {"context_size": 100}


def metric_weight(preset: str, traits: Traits) -> float:
    """The weight of FOCAL's metric loss."""
    return 100.0 if preset == "paper" and traits.group == "ml1" else 10.0
