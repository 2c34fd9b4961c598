"""A small agent like the default one, trained and adapted in seconds."""

from pathlib import Path

import jax
import jax.numpy as jnp

from idaq.adapt.methods import make_adapter
from idaq.algos.entries import make_algorithm
from idaq.algos.focal import FocalConfig
from idaq.engine.logged_episodes import expert_episodes
from idaq.engine.meta_test import Results, evaluate
from idaq.engine.rollout import make_rollouts
from idaq.engine.train import train_data, train_group
from idaq.envs import POINT_FAMILIES
from idaq.envs.family import reward_function, split_tasks
from idaq.learners.td3_bc import Td3BcConfig
from idaq.settings import AdaptConfig, AlgorithmConfig, TrainConfig
from idaq.storage.dataset import Dataset
from idaq.types import PyTree

ADAPT = AdaptConfig(reference="farthest-first", accept="improvement", final="best")
DEFAULT_LIKE = FocalConfig(
    latent_dim=8,
    encoder_hidden=(64, 64),
    encoder_learning_rate=1e-3,
    batch_size=32,
    context_size=32,
    normalise=True,
    learner=Td3BcConfig(hidden=(64, 64), learning_rate=1e-3, discount=0.9, target_rate=0.01),
)


def train(
    dataset: Dataset, config: AlgorithmConfig, num_updates: int, seed: int, place: Path
) -> PyTree:
    """One seed's agent, on the tasks of its split."""
    family = POINT_FAMILIES[dataset.family]
    algorithm = make_algorithm(config, family.spec)
    tasks = split_tasks(family.num_tasks, seed).train
    (agent,) = train_group(
        algorithm,
        TrainConfig(num_updates=num_updates, log_every_updates=num_updates),
        train_data(dataset, algorithm, [tasks], reward_function(family)),
        [seed],
        place / f"{seed}.safetensors",
        [place / f"seed-{seed}"],
        lambda _: None,
    )
    return agent


def adapt(
    dataset: Dataset,
    config: AlgorithmConfig,
    agent: PyTree,
    method: str,
    seed: int,
    options: AdaptConfig = ADAPT,
) -> Results:
    """The agent on the test tasks of its split."""
    family = POINT_FAMILIES[dataset.family]
    algorithm = make_algorithm(config, family.spec)
    tasks = split_tasks(family.num_tasks, seed).test
    given = None
    if method == "expert-context":
        expert = expert_episodes(dataset, family, tasks, seed, 1)
        given = jax.tree.map(lambda x: jnp.asarray(x)[None], expert)
    return evaluate(
        make_rollouts(family, algorithm),
        make_adapter(method, options, algorithm),
        jax.tree.map(lambda x: x[None], agent),
        jnp.asarray(tasks[None], jnp.int32),
        jax.random.key(seed)[None],
        given,
    )
