"""Algorithms with a context encoder: an objective, a learner behind z, and a judge beside them.

Section 2.3 of the paper. The encoder embeds logged transitions of a task into z; the objective
trains it, and may train networks of its own with it. The learner, an offline policy, sees z as a
constant; so does the judge, which uncertainties read. The three are components; the objective's
entry defines the algorithm.

Where it departs from the released code:
1. The prior q(z) is the embedding of *all* rows of each training task, not of a random batch.
2. With `normalise`, observations and rewards are standardised by the training tasks' statistics.
3. With `context_shift`, each context of the encoder's loss is shifted at random along what differs
   between the training tasks' first observations. Where every task has, say, an object in a place
   of its own, that place tells the training tasks apart better than anything else, so an encoder
   memorises it and says nothing useful about a new task. What can be seen at once need not be
   inferred.
4. With `hide_unrelated`, what differs between the training tasks' first observations and does not
   predict what their experts do is hidden from every network (`idaq.engine.starts`): a policy
   would look the task up by it instead of reading z.
5. With `next_obs`, the encoder sees (s, a, r, s') instead of (s, a, r): where tasks differ in their
   dynamics, what an action led to says which task it is.
6. With `logged_rows`, the agent remembers that many logged transitions of every training task, for
   searches and uncertainties that compare its own experience with them (`idaq.algos.logs`).
   Training does not depend on it.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from idaq.algos.data import (
    Normaliser,
    TrainData,
    choose_normaliser,
    network_rows,
    no_data,
    normalise_rows,
    rows_at,
    sample_rows,
    sample_tasks,
    split_batches,
    task_places,
    unscale_action,
)
from idaq.algos.entries import EMBEDDING, LOGS, OBJECTIVES, AlgorithmEntry, AnyObjective
from idaq.algos.logs import Logs, no_logs, remember
from idaq.algos.presets import context_settings, metric_weight, schedule
from idaq.config import MAX_SIZE, added, require, saved_as
from idaq.errors import IdaqError
from idaq.judges.base import AnyJudge, JudgeConfig, Trained, judge_of
from idaq.learners.base import LEARNERS, AnyLearner, LearnerConfig, learner_of
from idaq.learners.sac_brac import SacBracConfig
from idaq.learners.td3_bc import Td3BcConfig
from idaq.objectives.base import EncoderSettings, LearnerView, MetaBatch, Objective
from idaq.registry import Derived
from idaq.settings import AlgorithmConfig, RunConfig
from idaq.types import (
    Action,
    Carry,
    Episodes,
    Hypotheses,
    Hypothesis,
    Key,
    Mask,
    Metrics,
    OptState,
    Params,
    Places,
    PyTree,
    Scalar,
    Spec,
    Traits,
    Transition,
)


@dataclass(frozen=True, kw_only=True)
class ContextConfig(AlgorithmConfig):
    """What algorithms with a context encoder share. Defaults are the paper's."""

    latent_dim: int = 20
    encoder_hidden: tuple[int, ...] = (200, 200, 200)
    encoder_learning_rate: float = 3e-4
    meta_batch_size: int = 16
    batch_size: int = 256
    context_size: int = 400
    context_shift: float = 0.0  # in standard deviations of the training tasks' first observations
    hide_unrelated: bool = False
    normalise: bool = False
    std_floor: float = 0.05
    next_obs: bool = added(False)
    logged_rows: int = added(0)  # of every training task, that the agent remembers
    learner: LearnerConfig = field(default_factory=SacBracConfig)
    judge: JudgeConfig | None = saved_as("ensemble", None)

    def __post_init__(self) -> None:
        require(self, "latent_dim", "encoder_hidden", least=1, most=MAX_SIZE)
        require(self, "meta_batch_size", "batch_size", "context_size", least=1, most=MAX_SIZE)
        require(self, "encoder_learning_rate", above=0, most=1)
        require(self, "context_shift", "logged_rows", least=0)
        require(self, "std_floor", above=0)

    def encoder(self, spec: Spec) -> EncoderSettings:
        """The encoder that the objective trains."""
        return EncoderSettings(
            spec=spec,
            latent_dim=self.latent_dim,
            hidden=self.encoder_hidden,
            learning_rate=self.encoder_learning_rate,
            next_obs=self.next_obs,
        )


@dataclass(frozen=True, kw_only=True)
class MetricConfig(ContextConfig):
    """What objectives with FOCAL's metric loss share in addition."""

    metric_weight: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "metric_weight", least=0)


class State(NamedTuple):
    """Everything that training carries from one update to the next."""

    encoder: Params  # whatever the objective trains
    encoder_opt: OptState
    learner: PyTree
    judge: Params
    judge_opt: OptState
    normaliser: Normaliser


class Agent(NamedTuple):
    """What adaptation needs."""

    encoder: Params
    policy: Params
    judge: Params
    normaliser: Normaliser
    prior: Hypotheses  # [num_train_tasks, latent_dim]
    logged_return: Scalar  # [], mean of the training tasks' episodes
    logs: Logs | None = None


@dataclass(frozen=True)
class ContextBased:
    """The algorithm of an objective, bound to its configuration and a family's spec."""

    config: ContextConfig
    spec: Spec
    entry: AnyObjective
    objective: Objective
    learner: AnyLearner
    judge: AnyJudge | None
    phase: Literal["pretraining", "training"] = "training"

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def phases(self) -> tuple[tuple[int, "ContextBased"], ...]:
        training, first = replace(self, phase="training"), self.objective.num_pretraining_updates
        if not first:
            return ((0, training),)
        return ((0, replace(self, phase="pretraining")), (first, training))

    @property
    def return_discount(self) -> float | None:
        return None

    @property
    def relabels(self) -> bool:
        return False

    def init(self, data: TrainData, key: Key) -> State:
        """Fresh networks; the normaliser is the training tasks' or none."""
        config, spec = self.config, self.spec
        encoder_key, learner_key, judge_key = jax.random.split(key, 3)
        encoder, encoder_opt = self.objective.init(encoder_key)
        judge = Trained(None, None)
        if self.judge is not None:
            judge = self.judge.init(config.judge, spec, config.latent_dim, judge_key)
        return State(
            encoder=encoder,
            encoder_opt=encoder_opt,
            learner=self.learner.init(config.learner, spec, config.latent_dim, learner_key),
            judge=judge.params,
            judge_opt=judge.opt,
            normaliser=choose_normaliser(config, data),
        )

    def update(self, state: State, data: TrainData, key: Key) -> tuple[State, Metrics]:
        """One meta-update on a batch of tasks drawn with replacement."""
        config = self.config
        tasks_key, context_key, batch_key, learner_key = jax.random.split(key, 4)
        tasks = sample_tasks(data, config.meta_batch_size, tasks_key)
        contexts = self._sample_contexts(state, data, tasks, context_key)
        num_batches = self.learner.num_batches(config.learner)
        batch = sample_rows(data, tasks, num_batches * config.batch_size, batch_key)
        batches = split_batches(normalise_rows(state.normaliser, batch), num_batches)
        first = Transition(*(field[0] for field in batches))
        objective_key = jax.random.fold_in(context_key, 2)  # 1 shifts contexts
        meta = MetaBatch(tasks, contexts, first, objective_key, learner_key)

        if self.phase == "pretraining":
            encoder, opt, metrics = self.objective.pretrain(state.encoder, state.encoder_opt, meta)
            return state._replace(encoder=encoder, encoder_opt=opt), metrics

        # --- Update context encoder ---
        view = LearnerView(self.learner, config.learner, state.learner)
        step = self.objective.update(state.encoder, state.encoder_opt, meta, view)
        metrics = dict(step.metrics)

        # --- Update policy and critics on the detached embedding ---
        z = jnp.repeat(jax.lax.stop_gradient(step.z), config.batch_size, axis=0)  # [n, latent]
        learner, learner_metrics = self.learner.update(
            config.learner, state.learner, batches, z, learner_key
        )
        metrics |= learner_metrics

        # --- Update what judges episodes ---
        judge = Trained(state.judge, state.judge_opt)
        if self.judge is not None:
            judge_key = jax.random.fold_in(context_key, 3)
            judge, judge_metrics = self.judge.update(config.judge, judge, first, z, judge_key)
            metrics |= judge_metrics
        new_state = State(
            encoder=step.params,
            encoder_opt=step.opt,
            learner=learner,
            judge=judge.params,
            judge_opt=judge.opt,
            normaliser=state.normaliser,
        )
        return new_state, metrics

    def _sample_contexts(
        self, state: State, data: TrainData, tasks: Places, key: Key
    ) -> Transition:
        """Random transitions of each task, [num_tasks, context_size, ...], perhaps shifted."""
        config = self.config
        rows = sample_rows(data, tasks, config.context_size, key)
        if config.context_shift > 0:
            shape = (config.meta_batch_size, 1, self.spec.obs_dim)
            noise = jax.random.normal(jax.random.fold_in(key, 1), shape)
            shift = config.context_shift * data.start_std * noise
            rows = rows._replace(obs=rows.obs + shift, next_obs=rows.next_obs + shift)
        return normalise_rows(state.normaliser, rows)

    def finish(self, state: State, data: TrainData) -> Agent:
        """The agent, with the embedding of all rows of every training task as its prior."""
        num_rows = int(data.task_count[data.train_tasks].max())
        encoder = self.objective.trained_encoder(state.encoder)

        def embed_task(task: Places) -> Hypothesis:
            places, is_own = task_places(data, task, num_rows)
            rows = normalise_rows(state.normaliser, rows_at(data, places))
            return self.objective.embed(encoder, rows, is_own.astype(jnp.float32))

        prior = jax.lax.map(embed_task, data.train_tasks)
        return self._agent(state, prior, data.mean_return, remember(self.config, data))

    def agent_shapes(self, num_train_tasks: int) -> Agent:
        """The shapes of an agent, to read one back from a file."""

        def fresh_agent() -> Agent:
            data = no_data(self.spec, num_train_tasks)
            state = self.init(data, jax.random.key(0))
            prior = jnp.zeros((num_train_tasks, self.config.latent_dim))
            logs = no_logs(self.config, self.spec, num_train_tasks)
            return self._agent(state, prior, data.mean_return, logs)

        shapes: Agent = jax.eval_shape(fresh_agent)
        return shapes

    def encode(self, agent: Agent, episodes: Episodes, keep: Mask) -> Hypothesis:
        """The embedding of all transitions of the kept episodes; of none if none is kept."""
        rows = network_rows(self.spec, agent.normaliser, episodes)
        weight = (jnp.asarray(episodes.valid) & keep[:, None]).astype(jnp.float32)
        flat = Transition(*(x.reshape(-1, *x.shape[2:]) for x in rows))
        return self.objective.embed(agent.encoder, flat, weight.reshape(-1))

    def prior(self, agent: Agent) -> Hypotheses:
        return agent.prior

    def logged_return(self, agent: Agent) -> Scalar:
        return agent.logged_return

    def logs(self, agent: Agent) -> Logs | None:
        """What the agent remembers of the logs, if it does."""
        return agent.logs

    def read(self, agent: Agent, episode: Episodes, hypothesis: Hypothesis) -> PyTree:
        """What the judge says of one episode [horizon, ...]."""
        if self.judge is None:
            raise IdaqError(
                "This agent was trained without anything that judges episodes.",
                "Train it with an ensemble, or choose another method.",
            )
        rows = network_rows(self.spec, agent.normaliser, episode)
        return self.judge.read(agent.judge, rows, episode.valid, hypothesis)

    def init_carry(self, agent: Agent, hypothesis: Hypothesis) -> Carry:
        return ()

    def act(
        self, agent: Agent, hypothesis: Hypothesis, carry: Carry, obs: jax.Array, key: Key
    ) -> tuple[Action, Carry]:
        action = self.learner.act(agent.policy, agent.normaliser.obs(obs), hypothesis)
        return unscale_action(self.spec, action), carry

    def take_reward(self, agent: Agent, carry: Carry, reward: Scalar) -> Carry:
        return carry

    def operations(self) -> int | None:
        """Floating-point operations of an update in this phase, if all its parts count theirs."""
        config, latent = self.config, self.config.latent_dim
        rows = config.meta_batch_size * config.batch_size
        contexts = config.meta_batch_size * config.context_size
        if self.phase == "pretraining":
            return self.objective.pretraining_operations(config.meta_batch_size, contexts, rows)
        parts = [self.objective.operations(config.meta_batch_size, contexts, rows)]
        for entry, settings in ((self.learner, config.learner), (self.judge, config.judge)):
            if entry is not None:
                count = entry.operations
                per_row = None if count is None else count(settings, self.spec, latent)
                parts.append(None if per_row is None else rows * per_row)
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def _agent(
        self, state: State, prior: Hypotheses, logged_return: Scalar, logs: Logs | None
    ) -> Agent:
        return Agent(
            encoder=self.objective.trained_encoder(state.encoder),
            policy=self.learner.trained_policy(self.config.learner, state.learner),
            judge=state.judge,
            normaliser=state.normaliser,
            prior=prior,
            logged_return=logged_return,
            logs=logs,
        )


def make_context_based(entry: AnyObjective, config: ContextConfig, spec: Spec) -> ContextBased:
    """The algorithm of an objective."""
    objective, learner = entry.make(config, spec), learner_of(config.learner)
    if entry.needs_critic and learner.critic is None:
        raise IdaqError(
            f"{entry.label} trains its encoder through a critic, and the learner "
            f"'{learner.name}' has none.",
            f"Choose one of {', '.join(name for name, each in LEARNERS.items() if each.critic)}.",
        )
    judge = None if config.judge is None else judge_of(config.judge)
    return ContextBased(config, spec, entry, objective, learner, judge)


def algorithm_of(entry: AnyObjective) -> AlgorithmEntry[Any, ContextBased]:
    """The entry of an objective's algorithm."""
    return AlgorithmEntry(
        name=entry.name,
        label=entry.label,
        version=entry.version,
        config=entry.config,
        make=partial(make_context_based, entry),
        preset=entry.preset or partial(shared_preset, entry),
        offers=frozenset({EMBEDDING, LOGS}),
        has_judge=True,
        default_methods=entry.default_methods,
        operations=ContextBased.operations,
        speed_cases=entry.speed_cases,
        phase_setting=entry.phase_setting,
    )


OF_OBJECTIVES = Derived(OBJECTIVES, algorithm_of)


def shared_preset(entry: AnyObjective, preset: str, traits: Traits) -> RunConfig:
    """The preset that context-based algorithms share, for one objective.

    If the objective needs a critic and the preset's learner has none, TD3+BC of the same size
    takes its place.
    """
    settings = context_settings(preset, traits)
    learner = settings.get("learner")
    if entry.needs_critic and learner is not None and learner_of(learner).critic is None:
        settings["learner"] = Td3BcConfig(hidden=learner.hidden)
    if issubclass(entry.config, MetricConfig):
        settings["metric_weight"] = metric_weight(preset, traits)
    train, adapt = schedule(preset, traits)
    return RunConfig(algorithm=entry.config(**settings), train=train, adapt=adapt)
