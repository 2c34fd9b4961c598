"""FOCAL: a context encoder trained by a metric loss alone, and an offline learner behind it.

Section 2.3 and Appendix C of the paper. The encoder's gradient comes from the metric loss only;
the policy, the critics and the models see its embedding z as a constant. Three learners stand
behind the same encoder: the paper's (`sac_brac`) and the presets' own (`td3_bc`, `bc`). The
ensemble of reward and dynamics models is trained beside them, on the same batches, when it is asked
for.

Where it departs from the released code:
1. The prior q(z) is the embedding of *all* rows of each training task, not of a random batch.
2. The metric loss averages each kind of pair by its exact count.
3. With `normalise`, observations and rewards are standardised by the training tasks' statistics.
4. With `context_shift`, each context of the encoder's loss is shifted at random along what differs
   between the training tasks' first observations. Where every task has, say, an object in a place
   of its own, that place tells the training tasks apart better than anything else, so an encoder
   learns it by heart and says nothing useful of a new task. What can be seen at once need not be
   inferred.
5. With `hide_unrelated`, what differs between the training tasks' first observations and does not
   foretell what their experts do is hidden from every network (engine/starts.py): a policy would
   look the task up by it instead of reading z.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax

from idaq.algos.base import Prediction
from idaq.algos.data import (
    Normaliser,
    TrainData,
    choose_normaliser,
    network_units,
    no_data,
    normalise_rows,
    rows_at,
    sample_rows,
    sample_tasks,
    split_batches,
    task_places,
    unscale_action,
)
from idaq.config import MAX_SIZE, require
from idaq.errors import IdaqError
from idaq.learners import bc, sac_brac, td3_bc
from idaq.learners.losses import metric_loss, model_loss
from idaq.nets import context, dynamics
from idaq.types import Array, Episodes, PyTree, Spec, Transition


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig:
    """The reward and dynamics models that prediction error and variance need."""

    size: int = 4
    hidden: tuple[int, ...] = (200, 200, 200)
    learning_rate: float = 3e-4

    def __post_init__(self) -> None:
        require(self, "size", least=2, most=1_000)  # a variance needs two
        require(self, "hidden", least=1, most=MAX_SIZE)
        require(self, "learning_rate", above=0, most=1)


@dataclass(frozen=True, kw_only=True)
class ContextConfig:
    """What algorithms with a context encoder share. Defaults are the paper's."""

    latent_dim: int = 20
    encoder_hidden: tuple[int, ...] = (200, 200, 200)
    encoder_learning_rate: float = 3e-4
    metric_weight: float = 10.0
    meta_batch_size: int = 16
    batch_size: int = 256
    context_size: int = 400
    context_shift: float = 0.0  # in standard deviations of the training tasks' first observations
    hide_unrelated: bool = False
    normalise: bool = False
    std_floor: float = 0.05
    learner: sac_brac.SacBracConfig | td3_bc.Td3BcConfig | bc.BcConfig = field(
        default_factory=sac_brac.SacBracConfig
    )
    ensemble: EnsembleConfig | None = None

    def __post_init__(self) -> None:
        require(self, "latent_dim", "encoder_hidden", least=1, most=MAX_SIZE)
        require(self, "meta_batch_size", "batch_size", "context_size", least=1, most=MAX_SIZE)
        require(self, "encoder_learning_rate", above=0, most=1)
        require(self, "metric_weight", "context_shift", least=0)
        require(self, "std_floor", above=0)


@dataclass(frozen=True, kw_only=True)
class Config(ContextConfig):
    """FOCAL adds nothing."""

    kind: Literal["focal"] = "focal"


class State(NamedTuple):
    """Everything that training carries from one update to the next."""

    encoder: PyTree
    encoder_opt: PyTree
    learner: sac_brac.SacBracState | td3_bc.Td3BcState | bc.BcState
    ensemble: dynamics.Ensemble | None
    ensemble_opt: PyTree
    normaliser: Normaliser


class Agent(NamedTuple):
    """What adaptation needs."""

    encoder: PyTree
    policy: PyTree
    ensemble: dynamics.Ensemble | None
    normaliser: Normaliser
    prior: Any  # [num_train_tasks, latent_dim]
    logged_return: Any  # [], mean of the training tasks' episodes


@dataclass(frozen=True)
class ContextBased:
    """An encoder and a learner behind it; how the encoder is trained is left to `_encoder_loss`."""

    config: ContextConfig
    spec: Spec

    @property
    def phases(self) -> tuple[tuple[int, Self], ...]:
        return ((0, self),)

    @property
    def return_discount(self) -> float | None:
        return None

    def init(self, data: TrainData, key: Array) -> State:
        """Fresh networks; the normaliser is the training tasks' or none."""
        config, spec = self.config, self.spec
        encoder_key, learner_key, ensemble_key = jax.random.split(key, 3)
        encoder = self._init_encoder(encoder_key)
        ensemble, ensemble_opt = None, None
        if config.ensemble is not None:
            ensemble = dynamics.init(
                ensemble_key,
                config.ensemble.size,
                spec.obs_dim,
                spec.action_dim,
                config.ensemble.hidden,
                config.latent_dim,
            )
            ensemble_opt = optax.adam(config.ensemble.learning_rate).init(ensemble)
        return State(
            encoder=encoder,
            encoder_opt=optax.adam(config.encoder_learning_rate).init(encoder),
            learner=self._learner.init(config.learner, spec, config.latent_dim, learner_key),
            ensemble=ensemble,
            ensemble_opt=ensemble_opt,
            normaliser=choose_normaliser(config, data),
        )

    def update(self, state: State, data: TrainData, key: Array) -> tuple[State, dict[str, Any]]:
        """One meta-update on a batch of tasks drawn with replacement."""
        config = self.config
        tasks_key, context_key, batch_key, learner_key = jax.random.split(key, 4)
        tasks = sample_tasks(data, config.meta_batch_size, tasks_key)

        rows = sample_rows(data, tasks, config.context_size, context_key)
        if config.context_shift > 0:
            shape = (config.meta_batch_size, 1, self.spec.obs_dim)
            shift = jax.random.normal(jax.random.fold_in(context_key, 1), shape)
            rows = rows._replace(obs=rows.obs + config.context_shift * data.start_std * shift)
        rows = normalise_rows(state.normaliser, rows)
        num_batches = self._learner.num_batches(config.learner)
        batch = sample_rows(data, tasks, num_batches * config.batch_size, batch_key)
        batches = split_batches(normalise_rows(state.normaliser, batch), num_batches)
        first = Transition(*(field[0] for field in batches))

        # --- Update context encoder ---
        loss = partial(self._encoder_loss, state, tasks, rows, first, context_key, learner_key)
        (_, (embedding, metrics)), encoder_grad = jax.value_and_grad(loss, has_aux=True)(
            state.encoder
        )
        encoder_step, encoder_opt = optax.adam(config.encoder_learning_rate).update(
            encoder_grad, state.encoder_opt
        )

        # --- Update policy and critics on the detached embedding ---
        z = jnp.repeat(jax.lax.stop_gradient(embedding), config.batch_size, axis=0)  # [n, latent]
        learner, learner_metrics = self._learner.update(
            config.learner, state.learner, batches, z, learner_key
        )
        metrics |= learner_metrics

        # --- Update reward and dynamics models ---
        ensemble, ensemble_opt = state.ensemble, state.ensemble_opt
        if config.ensemble is not None:
            ensemble, ensemble_opt, metrics["model_loss"] = update_ensemble(
                config.ensemble, state, first, z
            )
        new_state = State(
            encoder=optax.apply_updates(state.encoder, encoder_step),
            encoder_opt=encoder_opt,
            learner=learner,
            ensemble=ensemble,
            ensemble_opt=ensemble_opt,
            normaliser=state.normaliser,
        )
        return new_state, metrics

    def finish(self, state: State, data: TrainData) -> Agent:
        """The agent, with the embedding of all rows of every training task as its prior."""
        num_rows = int(data.task_count[data.train_tasks].max())

        def embed_task(task: Array) -> Any:
            places, is_own = task_places(data, task, num_rows)
            rows = normalise_rows(state.normaliser, rows_at(data, places))
            return self._embed(state.encoder, *rows[:3], is_own.astype(jnp.float32))

        return self._agent(state, jax.lax.map(embed_task, data.train_tasks), data.mean_return)

    def agent_shapes(self, num_train_tasks: int) -> Agent:
        """The shapes of an agent, to read one back from a file."""

        def fresh_agent() -> Agent:
            data = no_data(self.spec, num_train_tasks)
            state = self.init(data, jax.random.key(0))
            prior = jnp.zeros((num_train_tasks, self.config.latent_dim))
            return self._agent(state, prior, data.mean_return)

        shapes: Agent = jax.eval_shape(fresh_agent)
        return shapes

    def encode(self, agent: Agent, episodes: Episodes, keep: Array) -> Any:
        """Mean embedding over all transitions of the kept episodes; zero if none is kept."""
        obs, action, reward = network_units(self.spec, agent.normaliser, episodes)
        weight = (episodes.valid & keep[:, None]).astype(jnp.float32)
        flat = [x.reshape(-1, *x.shape[2:]) for x in (obs, action, reward, weight)]
        return self._embed(agent.encoder, *flat)

    def prior(self, agent: Agent) -> Any:
        return agent.prior

    def logged_return(self, agent: Agent) -> Any:
        return agent.logged_return

    def predict(self, agent: Agent, episodes: Episodes, hypothesis: PyTree) -> Prediction:
        """The ensemble's view of one episode [horizon, ...]."""
        if agent.ensemble is None:
            raise IdaqError(
                "This agent was trained without reward and dynamics models.",
                "Train it with `--ensemble-size 4`, or choose another method.",
            )
        obs, action, reward = network_units(self.spec, agent.normaliser, episodes)
        z = jnp.broadcast_to(hypothesis, (*obs.shape[:-1], self.config.latent_dim))
        rewards, next_observations = dynamics.predict(agent.ensemble, obs, z, action)
        return Prediction(
            reward=reward,
            next_obs=agent.normaliser.obs(episodes.next_obs),
            rewards=rewards,
            next_observations=next_observations,
            valid=episodes.valid,
        )

    def init_carry(self, agent: Agent, hypothesis: PyTree) -> PyTree:
        return ()

    def act(
        self,
        agent: Agent,
        hypothesis: PyTree,
        carry: PyTree,
        obs: Array,
        key: Array,
    ) -> tuple[Any, PyTree]:
        action = self._learner.act(agent.policy, agent.normaliser.obs(obs), hypothesis)
        return unscale_action(self.spec, action), carry

    def take_reward(self, agent: Agent, carry: PyTree, reward: Array) -> PyTree:
        return carry

    def _encoder_loss(
        self,
        state: State,
        tasks: Array,
        contexts: Transition,
        batch: Transition,
        key: Array,
        learner_key: Array,
        encoder: PyTree,
    ) -> tuple[Any, tuple[Any, dict[str, Any]]]:
        """The loss; the embeddings [num_tasks, latent_dim] that the learner gets; metrics.

        `batch` and `learner_key` are what the learner will be updated with.
        """
        raise NotImplementedError

    def _init_encoder(self, key: Array) -> PyTree:
        sizes = (self.spec.obs_dim, self.spec.action_dim, self.config.encoder_hidden)
        return context.init(key, *sizes, self.config.latent_dim)

    def _embed(
        self, encoder: PyTree, obs: Array, action: Array, reward: Array, weight: Array
    ) -> Any:
        """The hypothesis of one context [n, ...]; `weight` [n] leaves out padding."""
        return context.embed_context(encoder, obs, action, reward, weight)

    def _agent(self, state: State, prior: Any, logged_return: Any) -> Agent:
        policy = self._learner.trained_policy(self.config.learner, state.learner)
        return Agent(state.encoder, policy, state.ensemble, state.normaliser, prior, logged_return)

    @property
    def _learner(self) -> Any:
        return LEARNERS[self.config.learner.kind]


@dataclass(frozen=True)
class Focal(ContextBased):
    """The encoder is trained by the metric loss alone."""

    config: Config
    name: str = "focal"
    version: int = 1

    def _encoder_loss(
        self,
        state: State,
        tasks: Array,
        contexts: Transition,
        batch: Transition,
        key: Array,
        learner_key: Array,
        encoder: PyTree,
    ) -> tuple[Any, tuple[Any, dict[str, Any]]]:
        embedding = context.embed_context(encoder, *contexts[:3])
        loss = self.config.metric_weight * metric_loss(embedding, tasks)
        return loss, (embedding, {"metric_loss": loss})


LEARNERS = {"sac-brac": sac_brac, "td3-bc": td3_bc, "bc": bc}


def update_ensemble(
    config: EnsembleConfig, state: State, batch: Transition, z: Array
) -> tuple[dynamics.Ensemble, PyTree, Any]:
    def loss(ensemble: dynamics.Ensemble) -> Any:
        rewards, next_observations = dynamics.predict(ensemble, batch.obs, z, batch.action)
        return model_loss(batch.reward, batch.next_obs, rewards, next_observations)

    value, grad = jax.value_and_grad(loss)(state.ensemble)
    step, opt = optax.adam(config.learning_rate).update(grad, state.ensemble_opt)
    return optax.apply_updates(state.ensemble, step), opt, value
