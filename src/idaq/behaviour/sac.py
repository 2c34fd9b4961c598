"""Soft actor-critic (Haarnoja et al., 2018): the online learner behind behaviour policies.

Twin Q with slowly following targets, a tanh-Gaussian policy, and a temperature that holds the
policy's entropy at a target. Policy and critics are conditioned on what tells the tasks apart, so
that one policy serves all tasks of a family; the agents of this package are never told it.

It keeps the contract of `idaq.algos.base` as far as an online learner can: its data is a `Replay`
that grows, its hypothesis is the task's condition, and it neither encodes nor predicts.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from idaq.algos.data import unscale_action
from idaq.behaviour.replay import Replay, sample_replay
from idaq.config import MAX_SIZE, require
from idaq.learners.losses import soft_value, squared_error, td_target, temperature_loss
from idaq.nets import critic, mlp, policy
from idaq.nets.operations import Operations
from idaq.types import Action, Carry, Key, Metrics, OptState, PyTree, Scalar, Spec, Vector


@dataclass(frozen=True, kw_only=True)
class SacConfig:
    """The usual settings of continuous control."""

    policy_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 3e-4
    discount: float = 0.99
    target_rate: float = 0.005
    batch_size: int = 256
    reward_scale: float = 1.0
    temperature_init: float = 0.1
    entropy_per_action_dim: float = -1.0  # the target, of an action in [-1, 1]

    def __post_init__(self) -> None:
        require(self, "policy_hidden", "critic_hidden", "batch_size", least=1, most=MAX_SIZE)
        require(self, "learning_rate", "target_rate", above=0, most=1)
        require(self, "discount", least=0, most=1)
        require(self, "reward_scale", "temperature_init", above=0)
        require(self, "entropy_per_action_dim", least=-100, most=0.7)  # log 2 is uniform


class SacState(NamedTuple):
    """Parameters and optimiser states."""

    policy: mlp.Layers
    q: critic.Twins
    target_q: critic.Twins
    log_temperature: Scalar
    policy_opt: OptState
    q_opt: OptState
    temperature_opt: OptState


@dataclass(frozen=True)
class Sac:
    """The algorithm, bound to its configuration, the family's spec and the size of a condition.

    It is also a rollout policy: its agent is the policy's parameters, and the hypothesis a task's
    condition. `acting` draws actions from the policy or takes its mode.
    """

    config: SacConfig
    spec: Spec
    condition_dim: int
    acting: Literal["sample", "mode"] = "sample"
    name: str = "sac"
    version: int = 1

    def init(self, key: Key) -> SacState:
        """Fresh networks; targets start as copies."""
        config, spec = self.config, self.spec
        policy_key, q1_key, q2_key = jax.random.split(key, 3)
        sizes = (spec.obs_dim, spec.action_dim)
        q_sizes = (*sizes, config.critic_hidden, self.condition_dim)
        q = (critic.init_q(q1_key, *q_sizes), critic.init_q(q2_key, *q_sizes))
        policy_params = policy.init_gaussian(
            policy_key, *sizes, config.policy_hidden, self.condition_dim
        )
        log_temperature = jnp.log(jnp.asarray(config.temperature_init, jnp.float32))
        optimiser = optax.adam(config.learning_rate)
        return SacState(
            policy=policy_params,
            q=q,
            target_q=jax.tree.map(jnp.copy, q),
            log_temperature=log_temperature,
            policy_opt=optimiser.init(policy_params),
            q_opt=optimiser.init(q),
            temperature_opt=optimiser.init(log_temperature),
        )

    def update(self, state: SacState, data: Replay, key: Key) -> tuple[SacState, Metrics]:
        """One step of critics, policy and temperature on a batch of the replay."""
        config = self.config
        batch_key, target_key, policy_key = jax.random.split(key, 3)
        optimiser = optax.adam(config.learning_rate)
        temperature = jnp.exp(state.log_temperature)
        batch, condition = sample_replay(data, config.batch_size, batch_key)

        # --- Update Q ---
        following = policy.sample(state.policy, batch.next_obs, condition, target_key, "soft")
        next_q = jnp.minimum(
            *(
                critic.q_value(each, batch.next_obs, condition, following.action)
                for each in state.target_q
            )
        )
        next_value = soft_value(next_q, following.log_prob, temperature)
        reward = config.reward_scale * batch.reward
        target = td_target(reward, batch.terminated, next_value, config.discount)

        def q_loss(q: critic.Twins) -> Scalar:
            values = [critic.q_value(each, batch.obs, condition, batch.action) for each in q]
            return squared_error(values[0], target) + squared_error(values[1], target)

        q_loss_value, q_grad = jax.value_and_grad(q_loss)(state.q)
        q_step, q_opt = optimiser.update(q_grad, state.q_opt)
        q = optax.apply_updates(state.q, q_step)

        # --- Update policy ---
        def policy_loss(params: mlp.Layers) -> tuple[Scalar, Vector]:
            drawn = policy.sample(params, batch.obs, condition, policy_key, "soft")
            min_q = jnp.minimum(
                *(critic.q_value(each, batch.obs, condition, drawn.action) for each in q)
            )
            return -soft_value(min_q, drawn.log_prob, temperature).mean(), drawn.log_prob

        (policy_loss_value, log_prob), policy_grad = jax.value_and_grad(policy_loss, has_aux=True)(
            state.policy
        )
        policy_step, policy_opt = optimiser.update(policy_grad, state.policy_opt)

        # --- Update temperature ---
        target_entropy = config.entropy_per_action_dim * self.spec.action_dim
        temperature_grad = jax.grad(temperature_loss)(
            state.log_temperature, log_prob, target_entropy
        )
        temperature_step, temperature_opt = optimiser.update(
            temperature_grad, state.temperature_opt
        )

        new_state = SacState(
            policy=optax.apply_updates(state.policy, policy_step),
            q=q,
            target_q=optax.incremental_update(q, state.target_q, config.target_rate),
            log_temperature=optax.apply_updates(state.log_temperature, temperature_step),
            policy_opt=policy_opt,
            q_opt=q_opt,
            temperature_opt=temperature_opt,
        )
        return new_state, {
            "q_loss": q_loss_value,
            "policy_loss": policy_loss_value,
            "entropy": -log_prob.mean(),
            "temperature": temperature,
            "q_target": target.mean(),
        }

    def operations(self) -> int:
        """Floating-point operations of an update: critics, their targets, policy."""
        config, action = self.config, self.spec.action_dim
        inputs = self.spec.obs_dim + self.condition_dim
        actor = Operations(inputs, config.policy_hidden, 2 * action)
        q = Operations(inputs + action, config.critic_hidden, 1)
        per_row = 2 * q.train + 2 * q.forward + actor.forward  # towards the targets
        per_row += actor.train + 2 * q.to_action(action)
        return config.batch_size * per_row

    def agent_shapes(self) -> PyTree:
        """The shapes of an agent, to read one back from a file."""
        return jax.eval_shape(lambda: self.init(jax.random.key(0)).policy)

    def init_carry(self, agent: mlp.Layers, hypothesis: PyTree) -> Carry:
        return ()

    def act(
        self, agent: mlp.Layers, hypothesis: PyTree, carry: Carry, obs: jax.Array, key: Key
    ) -> tuple[Action, Carry]:
        """An action in the environment's units; the hypothesis is the task's condition."""
        if self.acting == "mode":
            action = policy.gaussian_mode(agent, obs, hypothesis)
        else:
            action = policy.sample(agent, obs, hypothesis, key, "soft").action
        return unscale_action(self.spec, action), carry

    def take_reward(self, agent: mlp.Layers, carry: Carry, reward: Scalar) -> Carry:
        return carry
