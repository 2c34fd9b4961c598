"""The learner of Point-Robot's default: TD3+BC (Fujimoto & Gu, 2021) conditioned on the embedding.

A deterministic policy, twin Q with target networks and smoothed target actions, and a policy
loss that trades the critic's value, scaled to size one, against the squared distance to the
data's actions. It has no entropy, no divergence critic and no adaptive weight, so it takes about
a third of the paper's learner's operations and needs far fewer updates.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from idaq.config import MAX_SIZE, require
from idaq.learners.base import Critic, LearnerConfig, LearnerEntry
from idaq.learners.losses import td3_bc_policy_loss, td_target, twin_error
from idaq.nets import critic, mlp, policy
from idaq.nets.operations import Operations
from idaq.types import (
    Action,
    Array,
    Embeddings,
    Key,
    Metrics,
    OptState,
    Scalar,
    Spec,
    Transition,
    Vector,
)


@dataclass(frozen=True, kw_only=True)
class Td3BcConfig(LearnerConfig):
    """Chosen on training tasks; see docs/tuning.md."""

    kind: Literal["td3-bc"] = "td3-bc"
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 3e-4
    discount: float = 0.99
    target_rate: float = 0.005
    bc_weight: float = 1.0
    target_noise: float = 0.2
    target_noise_max: float = 0.5

    def __post_init__(self) -> None:
        require(self, "hidden", least=1, most=MAX_SIZE)
        require(self, "learning_rate", "target_rate", above=0, most=1)
        require(self, "discount", least=0, most=1)
        require(self, "bc_weight", "target_noise", "target_noise_max", least=0)


class Td3BcState(NamedTuple):
    """Parameters and optimiser states."""

    policy: mlp.Layers
    target_policy: mlp.Layers
    q: critic.Twins
    target_q: critic.Twins
    policy_opt: OptState
    q_opt: OptState


def init(config: Td3BcConfig, spec: Spec, latent: int, key: Key) -> Td3BcState:
    """Fresh networks; targets start as copies."""
    policy_key, q1_key, q2_key = jax.random.split(key, 3)
    sizes = (spec.obs_dim, spec.action_dim, config.hidden, latent)
    q = (critic.init_q(q1_key, *sizes), critic.init_q(q2_key, *sizes))
    policy_params = policy.init_deterministic(policy_key, *sizes)
    optimiser = optax.adam(config.learning_rate)
    return Td3BcState(
        policy=policy_params,
        target_policy=jax.tree.map(jnp.copy, policy_params),
        q=q,
        target_q=jax.tree.map(jnp.copy, q),
        policy_opt=optimiser.init(policy_params),
        q_opt=optimiser.init(q),
    )


def trained_policy(config: Td3BcConfig, state: Td3BcState) -> mlp.Layers:
    """The policy that an agent takes along."""
    return state.policy


def act(policy_params: mlp.Layers, obs: Array, z: Array) -> Action:
    """The deterministic action in [-1, 1]."""
    return policy.deterministic(policy_params, obs, z)


def q_target(
    config: Td3BcConfig, state: Td3BcState, batch: Transition, z: Embeddings, key: Key
) -> Vector:
    """What Q is trained towards, [n]."""
    noise = config.target_noise * jax.random.normal(key, batch.action.shape)
    noise = jnp.clip(noise, -config.target_noise_max, config.target_noise_max)
    next_action = policy.deterministic(state.target_policy, batch.next_obs, z)
    next_action = jnp.clip(next_action + noise, -1.0, 1.0)
    next_q = [critic.q_value(each, batch.next_obs, z, next_action) for each in state.target_q]
    return td_target(batch.reward, batch.terminated, jnp.minimum(*next_q), config.discount)


def q_loss(q: critic.Twins, batch: Transition, z: Embeddings, target: Vector) -> Scalar:
    """The loss of both Q at the logged actions."""
    return twin_error(critic.twin_q(q, batch.obs, z, batch.action), target)


def update(
    config: Td3BcConfig, state: Td3BcState, batches: Transition, z: Embeddings, key: Key
) -> tuple[Td3BcState, Metrics]:
    """One step of critics and policy. `z` is [n, latent_dim] and carries no gradient."""
    batch = Transition(*(field[0] for field in batches))
    optimiser = optax.adam(config.learning_rate)

    # --- Update Q ---
    target = q_target(config, state, batch, z, key)
    q_loss_value, q_grad = jax.value_and_grad(q_loss)(state.q, batch, z, target)
    q_step, q_opt = optimiser.update(q_grad, state.q_opt)
    q = optax.apply_updates(state.q, q_step)

    # --- Update policy ---
    def policy_loss(params: mlp.Layers) -> Scalar:
        action = policy.deterministic(params, batch.obs, z)
        value = critic.q_value(q[0], batch.obs, z, action)
        return td3_bc_policy_loss(value, action, batch.action, config.bc_weight)

    policy_loss_value, policy_grad = jax.value_and_grad(policy_loss)(state.policy)
    policy_step, policy_opt = optimiser.update(policy_grad, state.policy_opt)
    policy_params = optax.apply_updates(state.policy, policy_step)

    new_state = Td3BcState(
        policy=policy_params,
        target_policy=optax.incremental_update(
            policy_params, state.target_policy, config.target_rate
        ),
        q=q,
        target_q=optax.incremental_update(q, state.target_q, config.target_rate),
        policy_opt=policy_opt,
        q_opt=q_opt,
    )
    return new_state, {
        "q_loss": q_loss_value,
        "policy_loss": policy_loss_value,
        "q_target": target.mean(),
    }


def operations(config: Td3BcConfig, spec: Spec, latent: int) -> int:
    """Floating-point operations of one update, per row."""
    obs, action = spec.obs_dim, spec.action_dim
    actor = Operations(obs + latent, config.hidden, action)
    q = Operations(obs + latent + action, config.hidden, 1)
    return 2 * q.train + actor.train + actor.forward + 2 * q.forward + q.to_action(action)


ENTRY = LearnerEntry(
    name="td3-bc",
    label="TD3+BC",
    version=1,
    config=Td3BcConfig,
    init=init,
    update=update,
    trained_policy=trained_policy,
    act=act,
    critic=Critic(target=q_target, loss=q_loss),
    operations=operations,
)
