"""A small agent like the default one, trained and adapted in seconds."""

from pathlib import Path

import jax
import jax.numpy as jnp

from idaq.adapt import make_adapter
from idaq.adapt.config import AdaptConfig
from idaq.algos.focal import Agent, Config, Focal
from idaq.algos.td3_bc import Td3BcConfig
from idaq.data.episodes import expert_episodes
from idaq.data.store import Dataset
from idaq.envs import POINT_FAMILIES
from idaq.envs.base import split_tasks
from idaq.evaluate import Results, evaluate
from idaq.presets import TrainConfig
from idaq.rollout import make_rollouts
from idaq.train import train_data, train_group

ADAPT = AdaptConfig(reference="farthest-first", accept="improvement", final="best")
DEFAULT_LIKE = Config(
    latent_dim=8,
    encoder_hidden=(64, 64),
    encoder_learning_rate=1e-3,
    batch_size=32,
    context_size=32,
    normalise=True,
    learner=Td3BcConfig(hidden=(64, 64), learning_rate=1e-3, discount=0.9, target_rate=0.01),
)


def train(dataset: Dataset, config: Config, num_updates: int, seed: int, place: Path) -> Agent:
    """One seed's agent, on the tasks of its split."""
    family = POINT_FAMILIES[dataset.family]
    algorithm = Focal(config, family.spec)
    tasks = split_tasks(family.num_tasks, seed).train
    (agent,) = train_group(
        algorithm,
        TrainConfig(num_updates=num_updates, log_every_updates=num_updates),
        train_data(dataset, algorithm, [tasks]),
        [seed],
        place / f"{seed}.safetensors",
        [place / f"seed-{seed}"],
        lambda _: None,
    )
    return agent  # type: ignore[no-any-return]


def adapt(dataset: Dataset, config: Config, agent: Agent, method: str, seed: int) -> Results:
    """The agent on the test tasks of its split."""
    family = POINT_FAMILIES[dataset.family]
    algorithm = Focal(config, family.spec)
    tasks = split_tasks(family.num_tasks, seed).test
    given = None
    if method == "expert-context":
        expert = expert_episodes(dataset, family, tasks, seed, 1)
        given = jax.tree.map(lambda x: jnp.asarray(x)[None], expert)
    return evaluate(
        make_rollouts(family, algorithm),
        make_adapter(method, ADAPT, algorithm),
        jax.tree.map(lambda x: x[None], agent),
        jnp.asarray(tasks[None], jnp.int32),
        jax.random.key(seed)[None],
        given,
    )
