"""The paper's offline learner: soft actor-critic with V, regularised by BRAC's dual-form KL.

Twin Q(s, a, z), V(s, z) with a slowly following target, a tanh-Gaussian policy with entropy
weight 1, and a dual critic c(s, a, z) that estimates the divergence D between policy and data
(`losses.dual_divergence`). The policy pays alpha * D, and alpha rises or falls by D minus its
target after every update.

Where it departs from the released code:
1. Time limits are not terminations: the critic bootstraps through them.
2. D in the policy's loss comes from c as it was before its steps, as in the released code; unlike
   there, so does the gradient through c.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from idaq.config import MAX_SIZE, require
from idaq.learners.base import Critic, LearnerConfig, LearnerEntry
from idaq.learners.losses import (
    dual_divergence,
    dual_log_ratio,
    dual_penalty,
    squared_error,
    td_target,
    twin_error,
)
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
class SacBracConfig(LearnerConfig):
    """Defaults are the paper's table (Appendix C) and, where it is silent, the released code."""

    kind: Literal["sac-brac"] = "sac-brac"
    hidden: tuple[int, ...] = (200, 200, 200)
    learning_rate: float = 3e-4
    discount: float = 0.99
    reward_scale: float = 1.0
    target_rate: float = 0.005
    divergence: Literal["kl-dual", "none"] = "kl-dual"
    dual_learning_rate: float = 1e-4
    dual_steps: int = 3
    dual_penalty_weight: float = 5.0
    divergence_target: float = 0.05
    alpha_init: float = 50.0
    alpha_max: float = 2000.0
    mean_regulariser: float = 1e-3
    log_std_regulariser: float = 1e-3

    def __post_init__(self) -> None:
        require(self, "hidden", least=1, most=MAX_SIZE)
        require(self, "learning_rate", "dual_learning_rate", "target_rate", above=0, most=1)
        require(self, "discount", least=0, most=1)
        require(self, "reward_scale", above=0)
        require(self, "dual_steps", least=1, most=1_000)
        require(self, "dual_penalty_weight", "alpha_init", "alpha_max", least=0)
        require(self, "divergence_target", "mean_regulariser", "log_std_regulariser", least=0)


class SacBracState(NamedTuple):
    """Parameters and optimiser states."""

    policy: mlp.Layers
    q: critic.Twins
    v: mlp.Layers
    target_v: mlp.Layers
    dual: mlp.Layers
    alpha: Scalar
    policy_opt: OptState
    q_opt: OptState
    v_opt: OptState
    dual_opt: OptState


def init(config: SacBracConfig, spec: Spec, latent: int, key: Key) -> SacBracState:
    """Fresh networks."""
    policy_key, q1_key, q2_key, v_key, dual_key = jax.random.split(key, 5)
    sizes = (spec.obs_dim, spec.action_dim, config.hidden, latent)
    q = (critic.init_q(q1_key, *sizes), critic.init_q(q2_key, *sizes))
    v = critic.init_v(v_key, spec.obs_dim, config.hidden, latent)
    policy_params = policy.init_gaussian(policy_key, *sizes)
    dual = critic.init_q(dual_key, *sizes)
    optimiser = optax.adam(config.learning_rate)
    return SacBracState(
        policy=policy_params,
        q=q,
        v=v,
        target_v=jax.tree.map(jnp.copy, v),
        dual=dual,
        alpha=jnp.asarray(config.alpha_init, jnp.float32),
        policy_opt=optimiser.init(policy_params),
        q_opt=optimiser.init(q),
        v_opt=optimiser.init(v),
        dual_opt=optax.adam(config.dual_learning_rate).init(dual),
    )


def trained_policy(config: SacBracConfig, state: SacBracState) -> mlp.Layers:
    """The policy that an agent takes along."""
    return state.policy


def act(policy_params: mlp.Layers, obs: Array, z: Array) -> Action:
    """The deterministic action in [-1, 1]."""
    return policy.gaussian_mode(policy_params, obs, z)


def num_batches(config: SacBracConfig) -> int:
    """How many batches one update takes."""
    return config.dual_steps if config.divergence == "kl-dual" else 1


def q_target(
    config: SacBracConfig, state: SacBracState, batch: Transition, z: Embeddings, key: Key
) -> Vector:
    """What Q is trained towards, [n]."""
    next_v = critic.v_value(state.target_v, batch.next_obs, z)
    return td_target(config.reward_scale * batch.reward, batch.terminated, next_v, config.discount)


def q_loss(q: critic.Twins, batch: Transition, z: Embeddings, target: Vector) -> Scalar:
    """The loss of both Q at the logged actions."""
    return twin_error(critic.twin_q(q, batch.obs, z, batch.action), target)


def update(
    config: SacBracConfig, state: SacBracState, batches: Transition, z: Embeddings, key: Key
) -> tuple[SacBracState, Metrics]:
    """One step of every network.

    `batches` is [num_batches, n, ...]: the first batch serves all networks, the others are fresh
    ones for the dual critic's further steps. `z` is [n, latent_dim] and carries no gradient.
    """
    optimiser = optax.adam(config.learning_rate)
    policy_key, dual_key = jax.random.split(key)
    batch = Transition(*(field[0] for field in batches))

    # --- Update Q ---
    target = q_target(config, state, batch, z, key)
    q_loss_value, q_grad = jax.value_and_grad(q_loss)(state.q, batch, z, target)
    q_step, q_opt = optimiser.update(q_grad, state.q_opt)
    q = optax.apply_updates(state.q, q_step)

    # --- Update policy ---
    def policy_loss(
        params: mlp.Layers,
    ) -> tuple[Scalar, tuple[policy.Sample, Vector, Scalar]]:
        drawn = policy.sample(params, batch.obs, z, policy_key)
        min_q = jnp.minimum(*(critic.q_value(each, batch.obs, z, drawn.action) for each in q))
        loss = (drawn.log_prob - min_q).mean()
        loss += config.mean_regulariser * jnp.square(drawn.mean).mean()
        loss += config.log_std_regulariser * jnp.square(drawn.log_std).mean()
        log_ratio = jnp.zeros(())
        if config.divergence == "kl-dual":
            logit = critic.q_value(state.dual, batch.obs, z, drawn.action)
            log_ratio = dual_log_ratio(logit).mean()
            loss += state.alpha * log_ratio  # the rest of D does not depend on the policy
        return loss, (drawn, min_q, log_ratio)

    (policy_loss_value, (drawn, min_q, log_ratio)), policy_grad = jax.value_and_grad(
        policy_loss, has_aux=True
    )(state.policy)
    policy_step, policy_opt = optimiser.update(policy_grad, state.policy_opt)

    # --- Update V and its target ---
    def v_loss(params: mlp.Layers) -> Scalar:
        return squared_error(critic.v_value(params, batch.obs, z), min_q - drawn.log_prob)

    v_loss_value, v_grad = jax.value_and_grad(v_loss)(state.v)
    v_step, v_opt = optimiser.update(v_grad, state.v_opt)
    v = optax.apply_updates(state.v, v_step)

    metrics = {
        "q_loss": q_loss_value,
        "v_loss": v_loss_value,
        "policy_loss": policy_loss_value,
        "entropy": -drawn.log_prob.mean(),
    }
    dual, dual_opt, alpha = state.dual, state.dual_opt, state.alpha
    if config.divergence == "kl-dual":
        # --- Update dual critic and alpha ---
        dual, dual_opt, metrics["dual_loss"], divergence = _update_dual(
            config, state, batches, drawn.action, z, dual_key
        )
        metrics["policy_loss"] += state.alpha * (divergence - log_ratio)
        alpha = jnp.clip(alpha + divergence - config.divergence_target, 0.0, config.alpha_max)
        metrics |= {"divergence": divergence, "alpha": alpha}
    new_state = SacBracState(
        policy=optax.apply_updates(state.policy, policy_step),
        q=q,
        v=v,
        target_v=optax.incremental_update(v, state.target_v, config.target_rate),
        dual=dual,
        alpha=alpha,
        policy_opt=policy_opt,
        q_opt=q_opt,
        v_opt=v_opt,
        dual_opt=dual_opt,
    )
    return new_state, metrics


def _update_dual(
    config: SacBracConfig,
    state: SacBracState,
    batches: Transition,
    first_action: Action,
    z: Embeddings,
    key: Key,
) -> tuple[mlp.Layers, OptState, Scalar, Scalar]:
    """`dual_steps` steps of c, each on its own batch with actions of the policy before its step.

    Also returns the last step's loss, and the divergence as c saw it before the first one.
    """
    optimiser = optax.adam(config.dual_learning_rate)
    dual, dual_opt = state.dual, state.dual_opt
    losses, divergences = [], []
    for step, step_key in enumerate(jax.random.split(key, config.dual_steps)):
        action_key, between_key = jax.random.split(step_key)
        obs, data_action = batches.obs[step], batches.action[step]
        action = jax.lax.stop_gradient(
            first_action if step == 0 else policy.sample(state.policy, obs, z, action_key).action
        )
        between = action + jax.random.uniform(between_key, (len(z), 1)) * (data_action - action)
        actions = jnp.concatenate([action, data_action, between])  # one pass for all three

        def dual_loss(
            params: mlp.Layers, obs: jax.Array = obs, actions: Action = actions
        ) -> tuple[Scalar, Scalar]:
            logit = critic.q_value(params, jnp.tile(obs, (3, 1)), jnp.tile(z, (3, 1)), actions)
            at_policy, at_data, at_between = jnp.split(logit, 3)
            penalty = config.dual_penalty_weight * dual_penalty(at_between)
            divergence = dual_divergence(at_policy, at_data).mean()
            return penalty - divergence, divergence

        (loss, divergence), grad = jax.value_and_grad(dual_loss, has_aux=True)(dual)
        losses.append(loss)
        divergences.append(divergence)
        dual_step, dual_opt = optimiser.update(grad, dual_opt)
        dual = optax.apply_updates(dual, dual_step)
    return dual, dual_opt, losses[-1], divergences[0]


def operations(config: SacBracConfig, spec: Spec, latent: int) -> int:
    """Floating-point operations of one update, per row."""
    obs, action = spec.obs_dim, spec.action_dim
    actor = Operations(obs + latent, config.hidden, 2 * action)
    q = Operations(obs + latent + action, config.hidden, 1)
    v = Operations(obs + latent, config.hidden, 1)
    total = actor.train + 2 * q.train + v.train
    total += v.forward  # target of Q
    total += 2 * q.to_action(action)  # for the policy's loss; V's target shares the forward pass
    if config.divergence == "kl-dual":
        total += config.dual_steps * 3 * q.train  # at the policy's actions, the data's, and between
        total += (config.dual_steps - 1) * actor.forward  # actions on fresh batches
        total += q.to_action(action) - q.forward  # the penalty shares the first step's forward pass
    return total


ENTRY = LearnerEntry(
    name="sac-brac",
    label="SAC with BRAC",
    version=1,
    config=SacBracConfig,
    init=init,
    update=update,
    trained_policy=trained_policy,
    act=act,
    num_batches=num_batches,
    critic=Critic(target=q_target, loss=q_loss),
    operations=operations,
)
