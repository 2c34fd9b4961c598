"""Small algorithms and data that the tests share, and their compiled updates.

Programs are compiled without optimisation: they run for microseconds, and compiling them is what
takes time.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idaq.algos.base import Algorithm
from idaq.algos.borel.algorithm import Borel, BorelConfig
from idaq.algos.context_based import ContextBased
from idaq.algos.data import EpisodeIndex, Normaliser, SeedData, SharedData, TrainData
from idaq.algos.entries import make_algorithm
from idaq.algos.focal import FocalConfig
from idaq.algos.macaw.inner import MacawConfig
from idaq.algos.macaw.outer import Macaw
from idaq.algos.op_cl import OpClConfig
from idaq.judges.ensemble import EnsembleConfig
from idaq.learners.bc import BcConfig
from idaq.learners.sac_brac import SacBracConfig
from idaq.learners.td3_bc import Td3BcConfig
from idaq.settings import AlgorithmConfig
from idaq.types import Array, Episodes, Key, PyTree, Spec, Transition

QUICK = {"xla_backend_optimization_level": 0}

SPEC = Spec(obs_dim=3, action_dim=2, action_low=(-0.5, -1.0), action_high=(0.5, 3.0), horizon=4)
NUM_TASKS = 6
TASK_COUNTS = (8, 5, 8, 3, 8, 8)  # rows; episodes may differ in length
EPISODE_LENGTHS = ((4, 4), (4, 1), (4, 4), (3,), (4, 4), (4, 4))
TRAIN_TASKS = (0, 1, 3, 4)
LATENT_DIM = 3

LEARNERS: dict[str, SacBracConfig | Td3BcConfig | BcConfig] = {
    "sac-brac": SacBracConfig(hidden=(8,), dual_steps=2),
    "sac": SacBracConfig(hidden=(8,), divergence="none"),
    "td3-bc": Td3BcConfig(hidden=(8,)),
    "bc": BcConfig(hidden=(8,)),
}


def _focal(
    learner: SacBracConfig | Td3BcConfig | BcConfig, ensemble: EnsembleConfig | None
) -> ContextBased:
    config = FocalConfig(
        latent_dim=LATENT_DIM,
        encoder_hidden=(8,),
        meta_batch_size=4,
        batch_size=5,
        context_size=6,
        normalise=True,
        learner=learner,
        judge=ensemble,
    )
    return context_based(config)


def context_based(config: AlgorithmConfig) -> ContextBased:
    """Make an algorithm with a context encoder, typed as such."""
    made = make_algorithm(config, SPEC)
    assert isinstance(made, ContextBased)
    return made


ALGORITHMS = {
    name + suffix: _focal(learner, ensemble)
    for name, learner in LEARNERS.items()
    for suffix, ensemble in (("", None), ("+models", EnsembleConfig(size=2, hidden=(8,))))
}


_CONTEXT: dict[str, Any] = {
    "latent_dim": LATENT_DIM,
    "encoder_hidden": (8,),
    "meta_batch_size": 4,
    "batch_size": 5,
    "context_size": 6,
    "normalise": True,
}
OP_CL = OpClConfig(**_CONTEXT, learner=Td3BcConfig(hidden=(8,)))
MACAW = MacawConfig(
    hidden=(6, 5),
    code_dim=3,
    advantage_hidden=(4,),
    meta_batch_size=3,
    inner_batch_size=6,
    outer_batch_size=5,
    discount=0.9,
    normalise=True,
)
BOREL = BorelConfig(
    latent_dim=2,
    embed_dim=4,
    memory_dim=5,
    decoder_hidden=(6,),
    vae_updates=1,
    meta_batch_size=3,
    batch_size=7,
    normalise=True,
    learner=Td3BcConfig(hidden=(8,)),
)
BASELINES: dict[str, Algorithm] = {
    "op-cl": make_algorithm(OP_CL, SPEC),
    "op-cl, sac-brac+models": make_algorithm(
        replace(OP_CL, learner=LEARNERS["sac-brac"], judge=EnsembleConfig(size=2, hidden=(8,))),
        SPEC,
    ),
    "macaw": Macaw(MACAW, SPEC),
    "macaw, raw": Macaw(replace(MACAW, normalise=False), SPEC),
    "borel": Borel(BOREL, SPEC),
    "borel, policy": Borel(BOREL, SPEC, phase="policy"),
    "borel, oracle": Borel(replace(BOREL, relabel=True, elbo_prefixes=3, decoded_steps=2), SPEC),
}
EVERY: dict[str, Algorithm] = {**ALGORITHMS, **BASELINES}


def reward_of(task: Array, obs: Array, action: Array, next_obs: Array) -> Any:
    """The reward oracle of the tasks."""
    return jnp.sin(task + next_obs.sum() + 0.5 * action[0])


def changed(name: str, **changes: Any) -> ContextBased:
    """An algorithm with some of its settings changed."""
    return context_based(replace(ALGORITHMS[name].config, **changes))


@cache
def data(seed: int = 0) -> TrainData:
    """Random rows of six tasks, four of them for training; some rows are terminal."""
    rng = np.random.default_rng(seed)
    num = sum(TASK_COUNTS)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    rows = Transition(
        obs=normal(num, SPEC.obs_dim),
        action=jnp.tanh(normal(num, SPEC.action_dim)),
        reward=normal(num),
        next_obs=normal(num, SPEC.obs_dim),
        terminated=jnp.asarray(rng.random(num) < 0.3, jnp.float32),
    )
    starts = np.concatenate([[0], np.cumsum(TASK_COUNTS)[:-1]])
    shared = SharedData(
        rows=rows,
        task_start=jnp.asarray(starts, jnp.int32),
        task_count=jnp.asarray(TASK_COUNTS, jnp.int32),
        episodes=_episode_index(),
        return_to_go=normal(num),
        reward_of=jax.tree_util.Partial(reward_of),  # type: ignore[no-untyped-call]
    )
    own = SeedData(
        train_tasks=jnp.asarray(TRAIN_TASKS, jnp.int32),
        normaliser=Normaliser(
            obs_mean=jnp.asarray([0.1, -0.2, 0.3]),
            obs_std=jnp.asarray([0.5, 2.0, 1.0]),
            reward_mean=jnp.asarray(0.25, jnp.float32),
            reward_std=jnp.asarray(0.75, jnp.float32),
            seen=jnp.ones(3),
        ),
        start_std=jnp.asarray([0.2, 0.0, 1.5]),
        unrelated=jnp.asarray([False, False, True]),
        mean_return=jnp.asarray(1.5),
    )
    return TrainData(shared, own)


def _episode_index() -> EpisodeIndex:
    lengths = np.asarray([each for task in EPISODE_LENGTHS for each in task])
    counts = np.asarray([len(task) for task in EPISODE_LENGTHS])
    places = (np.cumsum(lengths) - lengths, lengths, np.cumsum(counts) - counts, counts)
    return EpisodeIndex(*(jnp.asarray(each, jnp.int32) for each in places))


def episodes(num: int, seed: int = 0) -> Episodes:
    """Random episodes of different lengths, [num, horizon, ...]."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, SPEC.horizon + 1, num)
    low, high = np.asarray(SPEC.action_low), np.asarray(SPEC.action_high)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.normal(size=(num, SPEC.horizon, *shape)), jnp.float32)

    uniform = rng.random((num, SPEC.horizon, SPEC.action_dim))
    nothing = jnp.zeros((num, SPEC.horizon), bool)
    return Episodes(
        obs=normal(SPEC.obs_dim),
        action=jnp.asarray(low + uniform * (high - low), jnp.float32),
        reward=normal(),
        next_obs=normal(SPEC.obs_dim),
        terminated=nothing,
        success=nothing,
        valid=jnp.asarray(np.arange(SPEC.horizon) < lengths[:, None]),
    )


class Counted:
    """A compiled function that counts how often it was traced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.traces = 0

        def counted(*arguments: Any) -> Any:
            self.traces += 1
            return function(*arguments)

        self._compiled = jax.jit(counted, compiler_options=QUICK)

    def __call__(self, *arguments: Any) -> Any:
        return self._compiled(*arguments)


@cache
def compiled_update(algorithm: Algorithm) -> Counted:
    """The update of an algorithm, compiled once per session."""
    return Counted(algorithm.update)


@cache
def first_state(algorithm: Algorithm, seed: int = 0) -> Any:
    """A fresh state."""
    return algorithm.init(data(), jax.random.key(seed))


def trained(algorithm: Algorithm, num: int, seed: int = 0, on: TrainData | None = None) -> Any:
    """The state after `num` updates, each in its phase."""
    state = first_state(algorithm, seed)
    for index in range(num):
        key = jax.random.fold_in(jax.random.key(seed), index)
        phase = [each for first, each in algorithm.phases if first <= index][-1]
        state, _ = compiled_update(phase)(state, on or data(), key)
    return state


def leaves(tree: PyTree) -> list[np.ndarray[Any, Any]]:
    """The arrays of a pytree, on the host."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def same_structure(first: PyTree, second: PyTree) -> bool:
    """Whether two pytrees have the same structure."""
    structure: Any = jax.tree.structure(first)
    return bool(structure == jax.tree.structure(second))


def same(first: PyTree, second: PyTree) -> bool:
    """Whether two pytrees are bit-identical."""
    if not same_structure(first, second):
        return False
    pairs = zip(leaves(first), leaves(second), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def close(first: PyTree, second: PyTree, rtol: float = 1e-4, atol: float = 1e-5) -> bool:
    """Whether two pytrees agree up to rounding."""
    pairs = zip(leaves(first), leaves(second), strict=True)
    return all(np.allclose(a, b, rtol=rtol, atol=atol) for a, b in pairs)


def keys(*seeds: int) -> Key:
    """One key per seed."""
    return jnp.stack([jax.random.key(seed) for seed in seeds])


@cache
def agent(algorithm: Algorithm, num_updates: int = 2) -> Any:
    """The agent after a few updates."""
    return algorithm.finish(trained(algorithm, num_updates), data())
