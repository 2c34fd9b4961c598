"""MACAW's entry: its presets, its operations, and what its agents can do.

`paper` has the hyper-parameters of its authors and as many updates as FOCAL takes. `default` is
the strongest version that trains in minutes: inputs and returns are standardised, networks small.
"""

from dataclasses import replace

from idaq.algos.entries import GRADIENT_STEPS, AlgorithmEntry, SpeedCase
from idaq.algos.macaw.inner import MacawConfig
from idaq.algos.macaw.outer import Macaw
from idaq.algos.presets import discount_of, is_small, schedule
from idaq.nets.operations import Operations
from idaq.settings import RunConfig
from idaq.types import Traits

GIVEN_TRANSITIONS = 256  # of expert context, in whole episodes

_SMALL = MacawConfig(
    hidden=(64, 64),
    code_dim=32,
    normalise=True,
    policy_learning_rate=1e-3,
    value_learning_rate=1e-3,
    rate_learning_rate=1e-2,
    inner_rate=1e-2,
    meta_batch_size=16,
    inner_batch_size=64,
    outer_batch_size=64,
)
_SIMULATOR = MacawConfig(
    hidden=(128, 128),
    code_dim=32,
    hide_unrelated=True,
    normalise=True,
    policy_learning_rate=1e-3,
    value_learning_rate=1e-3,
    rate_learning_rate=1e-2,
    inner_rate=1e-2,
    meta_batch_size=16,
)


def preset(name: str, traits: Traits) -> RunConfig:
    """The configuration of a run; FOCAL's adaptation, and whole episodes as expert context."""
    train, adapt = schedule(name, traits, embeddings=False)
    config = MacawConfig()
    if name == "default":
        small = replace(_SMALL, discount=discount_of(traits))
        config = small if is_small(traits) else _SIMULATOR
    given = -(-GIVEN_TRANSITIONS // traits.horizon) if is_small(traits) else 1
    return RunConfig(algorithm=config, train=train, adapt=replace(adapt, num_expert_episodes=given))


def operations(algorithm: Macaw) -> int:
    """Floating-point operations of an outer update, through the inner step."""
    config, spec = algorithm.config, algorithm.spec
    policy = Operations(spec.obs_dim, config.hidden, spec.action_dim)
    value = Operations(spec.obs_dim, config.hidden, 1)
    features = config.hidden[-1]
    head = Operations(features + spec.action_dim, config.advantage_hidden, 1)
    inner = value.train + value.forward + policy.train  # V's step, advantages, the policy's step
    inner += head.forward + head.hidden_gradient + head.to_inputs(features)
    inner += value.through_gradient + policy.through_gradient
    inner += 4 * head.forward  # through the head's part of the gradient, and its own
    outer = value.train + policy.train
    rows = config.inner_batch_size * inner + config.outer_batch_size * outer
    emitted = 2 * config.code_dim * (policy.num_weights + value.num_weights)
    # emitting once; per task a product with the map each way; for all of them the two gradients
    return config.meta_batch_size * (rows + 6 * emitted) + 3 * emitted


ENTRY = AlgorithmEntry(
    name="macaw",
    label="MACAW",
    version=2,
    config=MacawConfig,
    make=Macaw,
    preset=preset,
    offers=frozenset({GRADIENT_STEPS}),
    default_methods=("idaq-return", "fine-tuning", "expert-context"),
    operations=operations,
    speed_cases=(
        SpeedCase(preset="paper", group="ml1"),
        SpeedCase(preset="default", group="ml1"),
    ),
)
