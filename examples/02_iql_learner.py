"""A learner of your own: implicit Q-learning (Kostrikov et al., 2022), conditioned on the task.

IQL never asks its critics about an action that was not logged. V is an upper expectile of Q at the
logged actions, Q bootstraps through V, and the policy imitates logged actions, more so the better
they are. Every algorithm with a learner can use it; settings that it shares with the preset's
learner keep the preset's values.

    python examples/02_iql_learner.py run point-robot --set algorithm.learner.kind=iql

docs/extending/learner.md says what a learner must offer.
"""

import sys
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

import idaq
from idaq.config import MAX_SIZE, require
from idaq.learners.base import Critic, LearnerConfig, LearnerEntry
from idaq.learners.losses import td_target, twin_error
from idaq.nets import critic, mlp, policy
from idaq.nets.operations import Operations
from idaq.types import Action, Embeddings, Key, Metrics, OptState, Scalar, Spec, Transition, Vector

MAX_WEIGHT = 100.0  # of an action in the policy's loss


@dataclass(frozen=True, kw_only=True)
class IqlConfig(LearnerConfig):
    kind: Literal["iql"] = "iql"
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 3e-4
    discount: float = 0.99
    target_rate: float = 0.005
    expectile: float = 0.7
    inverse_temperature: float = 3.0

    def __post_init__(self) -> None:
        require(self, "hidden", least=1, most=MAX_SIZE)
        require(self, "learning_rate", "target_rate", "expectile", above=0, most=1)
        require(self, "discount", least=0, most=1)
        require(self, "inverse_temperature", least=0)


class IqlState(NamedTuple):
    policy: mlp.Layers
    v: mlp.Layers
    q: critic.Twins
    target_q: critic.Twins
    policy_opt: OptState
    v_opt: OptState
    q_opt: OptState


def init(config: IqlConfig, spec: Spec, latent: int, key: Key) -> IqlState:
    policy_key, v_key, q1_key, q2_key = jax.random.split(key, 4)
    sizes = (spec.obs_dim, spec.action_dim, config.hidden, latent)
    q = (critic.init_q(q1_key, *sizes), critic.init_q(q2_key, *sizes))
    v = critic.init_v(v_key, spec.obs_dim, config.hidden, latent)
    params = policy.init_deterministic(policy_key, *sizes)
    fresh = optax.adam(config.learning_rate).init
    return IqlState(params, v, q, jax.tree.map(jnp.copy, q), fresh(params), fresh(v), fresh(q))


def expectile_loss(gap: Vector, expectile: float) -> Scalar:
    """The squared gap, weighed by its sign."""
    return (jnp.where(gap > 0.0, expectile, 1.0 - expectile) * jnp.square(gap)).mean()


def q_target(
    config: IqlConfig, state: IqlState, batch: Transition, z: Embeddings, key: Key
) -> Vector:
    next_v = critic.v_value(state.v, batch.next_obs, z)
    return td_target(batch.reward, batch.terminated, next_v, config.discount)


def q_loss(q: critic.Twins, batch: Transition, z: Embeddings, target: Vector) -> Scalar:
    return twin_error(critic.twin_q(q, batch.obs, z, batch.action), target)


def update(
    config: IqlConfig, state: IqlState, batches: Transition, z: Embeddings, key: Key
) -> tuple[IqlState, Metrics]:
    batch = Transition(*(field[0] for field in batches))
    optimiser = optax.adam(config.learning_rate)
    logged_q = jnp.minimum(*critic.twin_q(state.target_q, batch.obs, z, batch.action))

    # --- Update V ---
    def v_loss(params: mlp.Layers) -> Scalar:
        return expectile_loss(logged_q - critic.v_value(params, batch.obs, z), config.expectile)

    v_loss_value, v_grad = jax.value_and_grad(v_loss)(state.v)
    v_step, v_opt = optimiser.update(v_grad, state.v_opt)
    v = optax.apply_updates(state.v, v_step)

    # --- Update policy ---
    advantage = logged_q - critic.v_value(v, batch.obs, z)
    weight = jnp.minimum(jnp.exp(config.inverse_temperature * advantage), MAX_WEIGHT)

    def policy_loss(params: mlp.Layers) -> Scalar:
        error = jnp.square(policy.deterministic(params, batch.obs, z) - batch.action).sum(axis=-1)
        return (weight * error).mean()

    policy_loss_value, policy_grad = jax.value_and_grad(policy_loss)(state.policy)
    policy_step, policy_opt = optimiser.update(policy_grad, state.policy_opt)

    # --- Update Q ---
    target = q_target(config, state._replace(v=v), batch, z, key)
    q_loss_value, q_grad = jax.value_and_grad(q_loss)(state.q, batch, z, target)
    q_step, q_opt = optimiser.update(q_grad, state.q_opt)
    q = optax.apply_updates(state.q, q_step)

    new_state = IqlState(
        policy=optax.apply_updates(state.policy, policy_step),
        v=v,
        q=q,
        target_q=optax.incremental_update(q, state.target_q, config.target_rate),
        policy_opt=policy_opt,
        v_opt=v_opt,
        q_opt=q_opt,
    )
    return new_state, {
        "v_loss": v_loss_value,
        "policy_loss": policy_loss_value,
        "q_loss": q_loss_value,
        "advantage_std": advantage.std(),
    }


def trained_policy(config: IqlConfig, state: IqlState) -> mlp.Layers:
    return state.policy


def act(params: mlp.Layers, obs: jax.Array, z: jax.Array) -> Action:
    return policy.deterministic(params, obs, z)


def operations(config: IqlConfig, spec: Spec, latent: int) -> int:
    """Of one update, per row: what `idaq bench speed` compares with the machine's rate."""
    obs, action = spec.obs_dim, spec.action_dim
    actor = Operations(obs + latent, config.hidden, action)
    v = Operations(obs + latent, config.hidden, 1)
    q = Operations(obs + latent + action, config.hidden, 1)
    return actor.train + v.train + 2 * v.forward + 2 * q.train + 2 * q.forward


ENTRY = LearnerEntry(
    name="iql",
    label="IQL",
    config=IqlConfig,
    init=init,
    update=update,
    trained_policy=trained_policy,
    act=act,
    critic=Critic(target=q_target, loss=q_loss),
    operations=operations,
)
idaq.register(ENTRY)

if __name__ == "__main__":
    from idaq.cli import main

    sys.exit(main())
