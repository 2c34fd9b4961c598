"""An algorithm of your own: no encoder, but a table with one embedding per training task.

A policy imitates every training task's logs, given the task's row of the table, and rows are
learned with the policy. On a new task nothing is inferred except by trying: the rows are the prior,
and IDAQ searches among them. So this shows what a search alone is worth, without an encoder.

    python examples/05_table_algorithm.py run point-robot --algorithm table

docs/extending/algorithm.md says what an algorithm must offer. To train an encoder in
another way, an objective is enough (03_club_objective.py).
"""

import sys
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax

import idaq
from idaq.algos.data import (
    Normaliser,
    TrainData,
    network_rows,
    no_data,
    normalise_rows,
    sample_rows,
    unscale_action,
)
from idaq.algos.entries import EMBEDDING, AlgorithmEntry, SpeedCase
from idaq.algos.presets import is_small, schedule
from idaq.config import MAX_SIZE, require
from idaq.learners.losses import squared_error
from idaq.nets import mlp, policy
from idaq.nets.operations import Operations
from idaq.settings import AlgorithmConfig, RunConfig
from idaq.types import (
    Action,
    Episodes,
    Hypotheses,
    Hypothesis,
    Key,
    Mask,
    Metrics,
    OptState,
    PyTree,
    Scalar,
    Spec,
    Traits,
)


@dataclass(frozen=True, kw_only=True)
class TableConfig(AlgorithmConfig):
    kind: Literal["table"] = "table"
    latent_dim: int = 5
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 1e-3
    meta_batch_size: int = 16
    batch_size: int = 64  # per task
    std_floor: float = 0.05

    def __post_init__(self) -> None:
        require(self, "latent_dim", "hidden", least=1, most=MAX_SIZE)
        require(self, "meta_batch_size", "batch_size", least=1, most=MAX_SIZE)
        require(self, "learning_rate", above=0, most=1)
        require(self, "std_floor", above=0)


class Learned(NamedTuple):
    table: Hypotheses  # [num_train_tasks, latent_dim]
    policy: mlp.Layers


class State(NamedTuple):
    learned: Learned
    opt: OptState
    normaliser: Normaliser


class Agent(NamedTuple):
    learned: Learned
    normaliser: Normaliser
    logged_return: Scalar  # []


@dataclass(frozen=True)
class Table:
    config: TableConfig
    spec: Spec
    name: str = "table"

    # --- What it is ---

    @property
    def phases(self) -> tuple[tuple[int, Self], ...]:
        return ((0, self),)

    @property
    def return_discount(self) -> float | None:
        return None

    @property
    def relabels(self) -> bool:
        return False

    # --- Training ---

    def init(self, data: TrainData, key: Key) -> State:
        table_key, policy_key = jax.random.split(key)
        latent, sizes = self.config.latent_dim, (self.spec.obs_dim, self.spec.action_dim)
        learned = Learned(
            table=jax.random.normal(table_key, (data.train_tasks.shape[0], latent)),
            policy=policy.init_deterministic(policy_key, *sizes, self.config.hidden, latent),
        )
        return State(learned, self._optimiser.init(learned), data.normaliser)

    def update(self, state: State, data: TrainData, key: Key) -> tuple[State, Metrics]:
        config = self.config
        tasks_key, rows_key = jax.random.split(key)
        num_tasks = data.train_tasks.shape[0]
        places = jax.random.randint(tasks_key, (config.meta_batch_size,), 0, num_tasks)
        rows = sample_rows(data, data.train_tasks[places], config.batch_size, rows_key)
        rows = normalise_rows(state.normaliser, rows)

        def loss(learned: Learned) -> Scalar:
            z = jnp.repeat(learned.table[places][:, None], config.batch_size, axis=1)
            return squared_error(policy.deterministic(learned.policy, rows.obs, z), rows.action)

        value, grad = jax.value_and_grad(loss)(state.learned)
        step, opt = self._optimiser.update(grad, state.opt)
        learned = optax.apply_updates(state.learned, step)
        return State(learned, opt, state.normaliser), {"policy_loss": value}

    def finish(self, state: State, data: TrainData) -> Agent:
        return Agent(state.learned, state.normaliser, data.mean_return)

    def agent_shapes(self, num_train_tasks: int) -> Agent:
        data = no_data(self.spec, num_train_tasks)
        shapes: Agent = jax.eval_shape(
            lambda: self.finish(self.init(data, jax.random.key(0)), data)
        )
        return shapes

    # --- Adaptation ---

    def prior(self, agent: Agent) -> Hypotheses:
        return agent.learned.table

    def encode(self, agent: Agent, episodes: Episodes, keep: Mask) -> Hypothesis:
        """The row under which the policy best matches the kept actions; of none, the mean row."""
        rows = network_rows(self.spec, agent.normaliser, episodes)
        weight = jnp.asarray(episodes.valid) & keep[:, None]

        def error(row: Hypothesis) -> Scalar:
            z = jnp.broadcast_to(row, (*rows.obs.shape[:-1], row.shape[-1]))
            action = policy.deterministic(agent.learned.policy, rows.obs, z)
            return (jnp.square(action - rows.action).mean(axis=-1) * weight).sum()

        table = agent.learned.table
        return jnp.where(keep.any(), table[jnp.argmin(jax.vmap(error)(table))], table.mean(axis=0))

    def logged_return(self, agent: Agent) -> Scalar:
        return agent.logged_return

    def read(self, agent: Agent, episode: Episodes, hypothesis: Hypothesis) -> PyTree:
        raise idaq.IdaqError("A table judges no episodes.", "Choose another method.")

    def init_carry(self, agent: Agent, hypothesis: Hypothesis) -> tuple[()]:
        return ()

    def act(
        self, agent: Agent, hypothesis: Hypothesis, carry: Any, obs: jax.Array, key: Key
    ) -> tuple[Action, Any]:
        seen = agent.normaliser.obs(obs)
        action = policy.deterministic(agent.learned.policy, seen, hypothesis)
        return unscale_action(self.spec, action), carry

    def take_reward(self, agent: Agent, carry: Any, reward: Scalar) -> Any:
        return carry

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.config.learning_rate)


def preset(name: str, traits: Traits) -> RunConfig:
    """Sizes depend on the kind of family; training and adaptation are as everywhere."""
    train, adapt = schedule(name, traits)
    hidden = (64, 64) if is_small(traits) else (256, 256)
    return RunConfig(algorithm=TableConfig(hidden=hidden), train=train, adapt=adapt)


def operations(algorithm: Table) -> int:
    """Of one update; rows of the table get gradients as the networks' inputs do."""
    config, spec = algorithm.config, algorithm.spec
    actor = Operations(spec.obs_dim + config.latent_dim, config.hidden, spec.action_dim)
    to_table = actor.to_inputs(config.latent_dim)
    return config.meta_batch_size * config.batch_size * (actor.train + to_table)


ENTRY = AlgorithmEntry(
    name="table",
    label="table",
    config=TableConfig,
    make=Table,
    preset=preset,
    offers=frozenset({EMBEDDING}),
    default_methods=("idaq-return", "posterior", "expert-context"),
    operations=operations,
    speed_cases=(SpeedCase(preset="default", group="point"),),
)
idaq.register(ENTRY)

if __name__ == "__main__":
    from idaq.cli import main

    sys.exit(main())
