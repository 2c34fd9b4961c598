"""The presets of OP+CL, MACAW and BOReL, on every family that FOCAL's presets cover.

`paper` has the hyper-parameters of each algorithm's authors, as the paper compares with them, and
as many updates as FOCAL takes. `default` is the strongest version that trains in minutes: inputs
and returns are standardised, networks are small, and the offline learner is TD3+BC. The adaptation
options are FOCAL's of the same preset and family.

A new family needs an entry in `_GROUPS`, and a line in each table whose values are not to be those
of the simulators.
"""

from dataclasses import fields, replace

from idaq.algos import AlgorithmConfig
from idaq.algos.borel import BorelConfig
from idaq.algos.focal import ContextConfig
from idaq.algos.macaw.inner import MacawConfig
from idaq.algos.op_cl import OpClConfig
from idaq.learners.bc import BcConfig
from idaq.learners.sac_brac import SacBracConfig
from idaq.learners.td3_bc import Td3BcConfig
from idaq.runs.presets import RunConfig, TrainConfig

_GROUPS = {"point-robot": "point", "point-robot-sparse": "point"}  # others are simulators

_MACAW = {
    ("paper", "point"): MacawConfig(),
    ("paper", "simulator"): MacawConfig(),
    ("default", "point"): MacawConfig(
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
        discount=0.9,
    ),
    ("default", "simulator"): MacawConfig(
        hidden=(128, 128),
        code_dim=32,
        hide_unrelated=True,
        normalise=True,
        policy_learning_rate=1e-3,
        value_learning_rate=1e-3,
        rate_learning_rate=1e-2,
        inner_rate=1e-2,
        meta_batch_size=16,
    ),
}
_MACAW_UPDATES = {"point": 2_000, "simulator": 10_000}
_GIVEN_TRANSITIONS = 256  # of MACAW's expert context, in whole episodes
_POINT_HORIZON = 20

_BOREL = {
    ("paper", "point"): BorelConfig(
        learner=SacBracConfig(divergence="none", hidden=(128, 128), discount=0.9)
    ),
    ("paper", "simulator"): BorelConfig(
        sequence_episodes=1,
        elbo_prefixes=50,
        decoded_steps=100,
        learner=SacBracConfig(divergence="none", hidden=(256, 256)),
    ),
    ("default", "point"): BorelConfig(
        vae_learning_rate=1e-3,
        memory_dim=64,
        vae_updates=5_000,
        sequence_episodes=4,
        elbo_prefixes=20,
        decoded_steps=40,
        normalise=True,
        batch_size=512,
        learner=Td3BcConfig(hidden=(128, 128), discount=0.9, target_rate=0.02, bc_weight=0.5),
    ),
    ("default", "simulator"): BorelConfig(
        vae_learning_rate=1e-3,
        vae_updates=5_000,
        sequence_episodes=1,
        elbo_prefixes=50,
        decoded_steps=100,
        hide_unrelated=True,
        normalise=True,
        batch_size=1024,
        learner=Td3BcConfig(hidden=(256, 256)),
    ),
}
_BOREL_UPDATES = {"point": 20_000, "simulator": 20_000}


def resolve_baseline(preset: str, family: str, algorithm: str, focal: RunConfig) -> RunConfig:
    """The configuration of an algorithm other than FOCAL, whose own is `focal`."""
    group = _GROUPS.get(family, "simulator")
    if algorithm == "op-cl":
        return replace(focal, algorithm=_op_cl(focal.algorithm))
    if algorithm == "macaw":
        train = _train(preset, focal, _MACAW_UPDATES[group])
        episodes = -(-_GIVEN_TRANSITIONS // _POINT_HORIZON) if group == "point" else 1
        adapt = replace(focal.adapt, num_expert_episodes=episodes)
        return RunConfig(algorithm=_MACAW[preset, group], train=train, adapt=adapt)
    train = _train(preset, focal, _BOREL_UPDATES[group])
    return RunConfig(algorithm=_BOREL[preset, group], train=train, adapt=focal.adapt)


def _op_cl(focal: AlgorithmConfig) -> OpClConfig:
    """FOCAL's own settings; a learner without a critic gives way to TD3+BC of the same size."""
    assert isinstance(focal, ContextConfig)
    same = {each.name: getattr(focal, each.name) for each in fields(ContextConfig)}
    if isinstance(focal.learner, BcConfig):
        same["learner"] = Td3BcConfig(hidden=focal.learner.hidden)
    return OpClConfig(**same)


def _train(preset: str, focal: RunConfig, num_updates: int) -> TrainConfig:
    """As FOCAL's, in preset `default` for another number of updates."""
    return focal.train if preset == "paper" else replace(focal.train, num_updates=num_updates)
