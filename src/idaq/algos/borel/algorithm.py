"""BOReL (Dorfman et al., 2021): a belief over tasks that is updated every step, and a policy on it.

Training has two phases. First a variational auto-encoder (`idaq.nets.vae`): after every prefix of a
sequence of episodes of one task, a sample of the belief decodes the rewards of the *whole*
sequence, and each belief pays for its divergence from the one before it (the first, from N(0, I)).
Second, with the encoder frozen, an offline learner on the augmented state [s, mean, log variance],
whose next state has the next belief. A sequence is several episodes one after the other, and the
state after the end of one is the start of the next.

The belief's memory is the hypothesis: an episode starts from it, `act` carries it on from step to
step, and `encode` reads whole episodes into it.

Without `relabel` this is the variant without reward oracle that the paper compares with. With it,
episodes of other training tasks are used too, with the rewards that the task's own reward function
gives for them. This is the authors' setting; it tells apart tasks whose logs share no states.

Where it departs from the authors' description:
1. Both phases are updates of one loop: the first `vae_updates` train the auto-encoder. Beliefs are
   computed from the sampled sequences at every update instead of once for a whole buffer.
2. Long sequences decode a random part of their steps from a random part of their prefixes.
3. The learner is a choice: soft actor-critic is the authors'.
4. The memory of a GRU drifts in sequences longer than those that it was trained on. The budget at
   meta-test is longer, so a belief starts from the last `sequence_episodes` - 1 episodes.
5. With `normalise`, observations and rewards are standardised by the training tasks' statistics.
"""

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax

from idaq.algos.data import (
    Normaliser,
    TrainData,
    choose_normaliser,
    network_rows,
    no_data,
    normalise_rows,
    rows_at,
    sample_tasks,
    unscale_action,
)
from idaq.config import MAX_SIZE, require
from idaq.errors import IdaqError
from idaq.learners.base import AnyLearner, LearnerConfig, learner_of
from idaq.learners.losses import gaussian_kl
from idaq.learners.sac_brac import SacBracConfig
from idaq.nets import mlp, vae
from idaq.settings import AlgorithmConfig
from idaq.types import (
    Action,
    Array,
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
    Transition,
)


@dataclass(frozen=True, kw_only=True)
class BorelConfig(AlgorithmConfig):
    """Defaults are the authors'."""

    kind: Literal["borel"] = "borel"
    latent_dim: int = 5
    embed_dim: int = 32
    memory_dim: int = 128
    decoder_hidden: tuple[int, ...] = (32, 32)
    kl_weight: float = 0.05
    vae_learning_rate: float = 3e-4
    vae_updates: int = 20_000  # the first phase; the learner trains from then on
    meta_batch_size: int = 16  # sequences per update
    sequence_episodes: int = 2  # of one task, one after the other
    elbo_prefixes: int = 0  # decoded from, drawn at random; 0 takes all
    decoded_steps: int = 0  # of the sequence, drawn at random; 0 takes all
    batch_size: int = 256  # transitions per update of the learner
    relabel: bool = False  # needs a family that can compute rewards
    relabel_share: float = 0.5  # of the episodes come from other tasks
    hide_unrelated: bool = False  # as in FOCAL
    normalise: bool = False
    std_floor: float = 0.05
    learner: LearnerConfig = field(
        default_factory=lambda: SacBracConfig(divergence="none", hidden=(256, 256))
    )

    def __post_init__(self) -> None:
        require(self, "latent_dim", "embed_dim", "memory_dim", least=1, most=MAX_SIZE)
        require(self, "decoder_hidden", "meta_batch_size", "batch_size", least=1, most=MAX_SIZE)
        require(self, "vae_updates", "sequence_episodes", least=1)
        require(self, "kl_weight", "elbo_prefixes", "decoded_steps", least=0)
        require(self, "vae_learning_rate", above=0, most=1)
        require(self, "relabel_share", least=0, most=1)
        require(self, "std_floor", above=0)


class Vae(NamedTuple):
    encoder: vae.Encoder
    decoder: mlp.Layers


class State(NamedTuple):
    """Everything that training carries from one update to the next."""

    vae: Vae
    vae_opt: OptState
    learner: PyTree
    normaliser: Normaliser


class Agent(NamedTuple):
    """What adaptation needs."""

    encoder: vae.Encoder
    policy: Params
    normaliser: Normaliser
    prior: Hypotheses  # [num_train_tasks, memory_dim]
    logged_return: Scalar  # [], mean of the training tasks' episodes


class Sequences(NamedTuple):
    """Episodes of one task one after the other, in the networks' units, [num, steps, ...]."""

    rows: Transition
    next_state: jax.Array  # [num, steps, obs_dim]; at an episode's end, the next one's start
    valid: jax.Array  # [num, steps]


@dataclass(frozen=True)
class Borel:
    """The algorithm, bound to its configuration and the family's spec, in one of its phases."""

    config: BorelConfig
    spec: Spec
    phase: Literal["vae", "policy"] = "vae"
    name: str = "borel"

    @property
    def phases(self) -> tuple[tuple[int, Self], ...]:
        first, second = replace(self, phase="vae"), replace(self, phase="policy")
        return ((0, first), (self.config.vae_updates, second))

    @property
    def return_discount(self) -> float | None:
        return None

    @property
    def relabels(self) -> bool:
        return self.config.relabel

    def init(self, data: TrainData, key: Key) -> State:
        """Fresh networks; the normaliser is the training tasks' or none."""
        config, spec = self.config, self.spec
        encoder_key, decoder_key, learner_key = jax.random.split(key, 3)
        networks = Vae(
            encoder=vae.init_encoder(
                encoder_key,
                spec.obs_dim,
                spec.action_dim,
                config.embed_dim,
                config.memory_dim,
                config.latent_dim,
            ),
            decoder=vae.init_decoder(
                decoder_key, spec.obs_dim, spec.action_dim, config.decoder_hidden, config.latent_dim
            ),
        )
        augmented = replace(spec, obs_dim=spec.obs_dim + 2 * config.latent_dim)
        return State(
            vae=networks,
            vae_opt=optax.adam(config.vae_learning_rate).init(networks),
            learner=self._learner.init(config.learner, augmented, 0, learner_key),
            normaliser=choose_normaliser(config, data),
        )

    def update(self, state: State, data: TrainData, key: Key) -> tuple[State, Metrics]:
        """One update of the auto-encoder or, in the second phase, of the learner."""
        tasks_key, sequences_key, update_key = jax.random.split(key, 3)
        tasks = sample_tasks(data, self.config.meta_batch_size, tasks_key)
        sequences = self._sample(state, data, tasks, sequences_key)
        if self.phase == "vae":
            return self._update_vae(state, sequences, update_key)
        return self._update_learner(state, sequences, update_key)

    def finish(self, state: State, data: TrainData) -> Agent:
        """The agent; its prior is the memory after one sequence of every training task."""

        def read_task(task: Places) -> Hypothesis:
            episodes = data.episodes.task_start[task] + jnp.arange(self.config.sequence_episodes)
            last = data.episodes.task_start[task] + data.episodes.task_count[task] - 1
            rows, valid = self._episodes_at(data, jnp.minimum(episodes, last)[None])
            sequences = _in_a_row(normalise_rows(state.normaliser, rows), valid)
            return self._memories(state.vae.encoder, sequences)[0, -1]

        return self._agent(state, jax.lax.map(read_task, data.train_tasks), data.mean_return)

    def agent_shapes(self, num_train_tasks: int) -> Agent:
        """The shapes of an agent, to read one back from a file."""

        def fresh_agent() -> Agent:
            data = no_data(self.spec, num_train_tasks)
            state = self.init(data, jax.random.key(0))
            prior = jnp.zeros((num_train_tasks, self.config.memory_dim))
            return self._agent(state, prior, data.mean_return)

        shapes: Agent = jax.eval_shape(fresh_agent)
        return shapes

    def encode(self, agent: Agent, episodes: Episodes, keep: Mask) -> Hypothesis:
        """The memory after the last kept episodes, in order; the empty memory if none is kept.

        It reads at most one episode fewer than a training sequence has, but one at least.
        """
        rows = network_rows(self.spec, agent.normaliser, episodes)
        kept_from_here = jnp.cumsum(keep[::-1])[::-1]
        is_read = keep & (kept_from_here < max(self.config.sequence_episodes, 2))
        valid = episodes.valid & is_read[:, None]
        flat = [x.reshape(-1, *x.shape[2:]) for x in (*rows[:3], valid)]
        return vae.unroll(agent.encoder, *flat)[-1]

    def prior(self, agent: Agent) -> Hypotheses:
        return agent.prior

    def logged_return(self, agent: Agent) -> Scalar:
        return agent.logged_return

    def read(self, agent: Agent, episode: Episodes, hypothesis: Hypothesis) -> PyTree:
        raise IdaqError("BOReL has nothing that judges episodes.", "Choose another method.")

    def init_carry(self, agent: Agent, hypothesis: Hypothesis) -> Carry:
        """(memory, the last observation and action, still without their reward)."""
        return hypothesis, jnp.zeros(self.spec.obs_dim), jnp.zeros(self.spec.action_dim)

    def act(
        self, agent: Agent, hypothesis: Hypothesis, carry: Carry, obs: jax.Array, key: Key
    ) -> tuple[Action, Carry]:
        memory, obs = carry[0], agent.normaliser.obs(obs)
        augmented = _augment(obs, *vae.belief(agent.encoder, memory))
        action = self._learner.act(agent.policy, augmented, augmented[:0])
        return unscale_action(self.spec, action), (memory, obs, action)

    def take_reward(self, agent: Agent, carry: Carry, reward: Scalar) -> Carry:
        memory, obs, action = carry
        reward = agent.normaliser.reward(reward)
        return vae.advance(agent.encoder, memory, obs, action, reward), obs, action

    # --- Training ---

    def _update_vae(self, state: State, sequences: Sequences, key: Key) -> tuple[State, Metrics]:
        def loss(networks: Vae) -> tuple[Scalar, Metrics]:
            reconstruction, kl = self.elbo_terms(networks, sequences, key)
            total = reconstruction + self.config.kl_weight * kl
            return total, {"vae_loss": total, "reconstruction": reconstruction, "kl": kl}

        (_, metrics), grad = jax.value_and_grad(loss, has_aux=True)(state.vae)
        optimiser = optax.adam(self.config.vae_learning_rate)
        step, vae_opt = optimiser.update(grad, state.vae_opt)
        return state._replace(vae=optax.apply_updates(state.vae, step), vae_opt=vae_opt), metrics

    def elbo_terms(self, networks: Vae, sequences: Sequences, key: Key) -> tuple[Scalar, Scalar]:
        """The two terms of the bound, averaged over prefixes and sequences.

        Per prefix: the squared errors of all rewards of the sequence, summed, and the divergence
        of its belief from that of the prefix before.
        """
        config, rows = self.config, sequences.rows
        noise_key, prefix_key, step_key = jax.random.split(key, 3)
        mean, log_variance = vae.belief(
            networks.encoder, self._memories(networks.encoder, sequences)
        )  # [num, steps + 1, latent_dim]
        num_steps = rows.reward.shape[1]
        prefixes = _some(prefix_key, num_steps + 1, config.elbo_prefixes)
        steps = _some(step_key, num_steps, config.decoded_steps)

        noise = jax.random.normal(noise_key, mean[:, prefixes].shape)
        latent = mean[:, prefixes] + jnp.exp(0.5 * log_variance[:, prefixes]) * noise
        shape = (latent.shape[0], latent.shape[1], steps.shape[0])
        inputs = [
            jnp.broadcast_to(x[:, None, steps], (*shape, x.shape[-1]))
            for x in (rows.obs, rows.action, rows.next_obs)
        ]
        latents = jnp.broadcast_to(latent[:, :, None], (*shape, config.latent_dim))
        decoded = vae.decode(networks.decoder, latents, *inputs)  # [num, prefixes, steps]
        error = jnp.square(decoded - rows.reward[:, None, steps]) * sequences.valid[:, None, steps]
        reconstruction = error.sum(axis=-1).mean() * (num_steps / steps.shape[0])

        first = jnp.zeros_like(mean[:, :1])  # N(0, I), before the belief without data
        before = [jnp.concatenate([first, x[:, :-1]], axis=1) for x in (mean, log_variance)]
        return reconstruction, gaussian_kl(mean, log_variance, *before).mean()

    def _update_learner(
        self, state: State, sequences: Sequences, key: Key
    ) -> tuple[State, Metrics]:
        config = self.config
        rows_key, learner_key = jax.random.split(key)
        memories = self._memories(state.vae.encoder, sequences)
        mean, log_variance = vae.belief(state.vae.encoder, memories)
        rows = sequences.rows
        rows = rows._replace(
            obs=_augment(rows.obs, mean[:, :-1], log_variance[:, :-1]),
            next_obs=_augment(sequences.next_state, mean[:, 1:], log_variance[:, 1:]),
        )
        num_batches = self._learner.num_batches(config.learner)
        chance = sequences.valid.ravel() / sequences.valid.sum()
        shape = (num_batches, config.batch_size)
        places = jax.random.choice(rows_key, chance.shape[0], shape, p=chance)
        batches = Transition(*(x.reshape(-1, *x.shape[2:])[places] for x in rows))
        no_z = jnp.zeros((config.batch_size, 0))
        learner, metrics = self._learner.update(
            config.learner, state.learner, batches, no_z, learner_key
        )
        return state._replace(learner=learner), metrics

    def _sample(self, state: State, data: TrainData, tasks: Places, key: Key) -> Sequences:
        """A sequence of random episodes of each task, relabelled ones of other tasks among them."""
        config, index = self.config, data.episodes
        episode_key, source_key, share_key = jax.random.split(key, 3)
        sources = jnp.repeat(tasks[:, None], config.sequence_episodes, axis=1)
        if config.relabel:
            others = sample_tasks(data, sources.size, source_key).reshape(sources.shape)
            is_other = jax.random.uniform(share_key, sources.shape) < config.relabel_share
            sources = jnp.where(is_other, others, sources)
        number = jax.random.randint(episode_key, sources.shape, 0, index.task_count[sources])
        rows, valid = self._episodes_at(data, index.task_start[sources] + number)
        if config.relabel:
            rows = rows._replace(reward=self._reward_of(data, tasks, rows))
        return _in_a_row(normalise_rows(state.normaliser, rows), valid)

    def _episodes_at(self, data: TrainData, episodes: Places) -> tuple[Transition, jax.Array]:
        """The rows of episodes [..., horizon, ...], and which of them took place."""
        step = jnp.arange(self.spec.horizon)
        length = data.episodes.length[episodes][..., None]
        rows = rows_at(
            data, data.episodes.start[episodes][..., None] + jnp.minimum(step, length - 1)
        )
        return rows, step < length

    def _reward_of(self, data: TrainData, tasks: Places, rows: Transition) -> jax.Array:
        """What each task's own reward function gives for rows [tasks, episodes, horizon, ...]."""
        if data.reward_of is None:
            raise IdaqError(
                "Relabelling needs a family that can compute rewards.",
                "Train with algorithm.relabel=false.",
            )
        one = data.reward_of
        for task_axis in (None, None, 0):
            one = jax.vmap(one, in_axes=(task_axis, 0, 0, 0))
        return one(tasks, rows.obs, unscale_action(self.spec, rows.action), rows.next_obs)

    def _memories(self, encoder: vae.Encoder, sequences: Sequences) -> jax.Array:
        rows = sequences.rows
        return vae.unroll(encoder, rows.obs, rows.action, rows.reward, sequences.valid)

    def _agent(self, state: State, prior: Hypotheses, logged_return: Scalar) -> Agent:
        policy = self._learner.trained_policy(self.config.learner, state.learner)
        return Agent(state.vae.encoder, policy, state.normaliser, prior, logged_return)

    @property
    def _learner(self) -> AnyLearner:
        return learner_of(self.config.learner)


def _augment(obs: Array, mean: Array, log_variance: Array) -> jax.Array:
    return jnp.concatenate([obs, mean, log_variance], axis=-1)


def _in_a_row(rows: Transition, valid: jax.Array) -> Sequences:
    """[num, episodes, horizon, ...] to [num, episodes * horizon, ...]."""
    is_end = valid & ~jnp.pad(valid[:, :, 1:], ((0, 0), (0, 0), (0, 1)))
    follows = jnp.arange(valid.shape[1]) < valid.shape[1] - 1
    next_start = jnp.roll(rows.obs[:, :, :1], -1, axis=1)  # [num, episodes, 1, obs_dim]
    leads_on = (is_end & follows[:, None])[..., None]
    next_state = jnp.where(leads_on, next_start, rows.next_obs)
    sequences = Sequences(rows, next_state, valid)
    num, steps = valid.shape[0], valid.shape[1] * valid.shape[2]
    flat: Sequences = jax.tree.map(lambda x: x.reshape(num, steps, *x.shape[3:]), sequences)
    return flat


def _some(key: Key, num: int, wanted: int) -> Places:
    """`wanted` different places of `num` at random; all, in order, if it is 0 or too many."""
    if wanted == 0 or wanted >= num:
        return jnp.arange(num)
    return jax.random.choice(key, num, (wanted,), replace=False)
