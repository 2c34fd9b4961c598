"""BOReL's entry: its presets, its operations, and what its agents can do.

`paper` has the hyper-parameters of its authors and as many updates as FOCAL takes. `default` is
the strongest version that trains in minutes: inputs are standardised, and the learner is TD3+BC.
"""

from dataclasses import replace
from typing import Any

from idaq.algos.borel.algorithm import Borel, BorelConfig
from idaq.algos.entries import BELIEF, AlgorithmEntry, SpeedCase
from idaq.algos.presets import discount_of, is_small, schedule
from idaq.learners.base import learner_of
from idaq.learners.sac_brac import SacBracConfig
from idaq.learners.td3_bc import Td3BcConfig
from idaq.nets.operations import Operations
from idaq.settings import RunConfig
from idaq.types import Traits

NUM_UPDATES = 20_000  # of preset `default`

_PAPER_SMALL = BorelConfig(learner=SacBracConfig(divergence="none", hidden=(128, 128)))
_PAPER_SIMULATOR = BorelConfig(
    sequence_episodes=1,
    elbo_prefixes=50,
    decoded_steps=100,
    learner=SacBracConfig(divergence="none", hidden=(256, 256)),
)
_SMALL = BorelConfig(
    vae_learning_rate=1e-3,
    memory_dim=64,
    vae_updates=5_000,
    sequence_episodes=4,
    elbo_prefixes=20,
    decoded_steps=40,
    normalise=True,
    batch_size=512,
    learner=Td3BcConfig(hidden=(128, 128), target_rate=0.02, bc_weight=0.5),
)
_SIMULATOR = BorelConfig(
    vae_learning_rate=1e-3,
    vae_updates=5_000,
    sequence_episodes=1,
    elbo_prefixes=50,
    decoded_steps=100,
    hide_unrelated=True,
    normalise=True,
    batch_size=1024,
    learner=Td3BcConfig(hidden=(256, 256)),
)


def preset(name: str, traits: Traits) -> RunConfig:
    """The configuration of a run; FOCAL's adaptation."""
    train, adapt = schedule(name, traits, embeddings=False)
    if name == "paper":
        config = _PAPER_SMALL if is_small(traits) else _PAPER_SIMULATOR
    else:
        config = _SMALL if is_small(traits) else _SIMULATOR
        train = replace(train, num_updates=NUM_UPDATES)
    if is_small(traits):
        learner: Any = config.learner
        config = replace(config, learner=replace(learner, discount=discount_of(traits)))
    return RunConfig(algorithm=config, train=train, adapt=adapt)


def operations(algorithm: Borel) -> int | None:
    """Floating-point operations of an update of that phase."""
    return _of_vae(algorithm) if algorithm.phase == "vae" else _of_policy(algorithm)


def _of_gru(algorithm: Borel) -> tuple[int, int]:
    """Per step: the forward pass, and the first layer's part of it."""
    config, spec = algorithm.config, algorithm.spec
    embed = 2 * (spec.obs_dim + spec.action_dim + 1) * config.embed_dim
    return embed + 2 * 3 * config.memory_dim * (config.embed_dim + config.memory_dim), embed


def _of_vae(algorithm: Borel) -> int:
    config, spec = algorithm.config, algorithm.spec
    steps = config.sequence_episodes * spec.horizon
    gru, embed = _of_gru(algorithm)
    head = 2 * config.memory_dim * 2 * config.latent_dim
    encoder = steps * (3 * gru - embed) + (steps + 1) * 3 * head
    inputs = config.latent_dim + 2 * spec.obs_dim + spec.action_dim
    decoder = Operations(inputs, config.decoder_hidden, 1)
    prefixes = min(config.elbo_prefixes or steps + 1, steps + 1)
    decoded = prefixes * min(config.decoded_steps or steps, steps)
    per_pair = decoder.train + decoder.to_inputs(config.latent_dim)
    return config.meta_batch_size * (encoder + decoded * per_pair)


def _of_policy(algorithm: Borel) -> int | None:
    config, spec = algorithm.config, algorithm.spec
    count = learner_of(config.learner).operations
    if count is None:
        return None
    steps = config.sequence_episodes * spec.horizon
    head = 4 * config.memory_dim * config.latent_dim
    belief = steps * _of_gru(algorithm)[0] + (steps + 1) * head
    augmented = replace(spec, obs_dim=spec.obs_dim + 2 * config.latent_dim)
    return config.meta_batch_size * belief + config.batch_size * count(config.learner, augmented, 0)


ENTRY = AlgorithmEntry(
    name="borel",
    label="BOReL",
    version=1,
    config=BorelConfig,
    make=Borel,
    preset=preset,
    offers=frozenset({BELIEF}),
    phase_setting="vae_updates",
    default_methods=("belief", "expert-context"),
    operations=operations,
    speed_cases=(
        SpeedCase(preset="paper", group="ml1"),
        SpeedCase(preset="paper", group="point"),
    ),
)
