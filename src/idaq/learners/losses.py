"""Losses as pure functions of network outputs; tests compare each with a NumPy oracle."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from idaq.types import Action, Array, Scalar, Vector

SAME_TASK_EPSILON = 1e-3
DIFFERENT_TASK_EPSILON = 0.1
DUAL_EPSILON = 1e-8
ADVANTAGE_EPSILON = 1e-8


def metric_loss(embedding: Array, task: Array) -> Scalar:
    """FOCAL's distance metric loss over all pairs of a meta-batch.

    `embedding` is [num, latent_dim], `task` [num]. With d2 the mean squared difference over the
    dimensions, pairs of one task cost sqrt(d2 + 1e-3) and pairs of two tasks 1 / (d2 + 0.1); each
    kind is averaged separately, and a kind without pairs costs nothing.
    """
    num = embedding.shape[0]
    squared = jnp.square(embedding[:, None] - embedding[None]).mean(axis=-1)  # [num, num]
    each_pair_once = jnp.triu(jnp.ones((num, num), bool), k=1)
    same = each_pair_once & (task[:, None] == task[None])
    different = each_pair_once & ~same
    attract = jnp.sqrt(squared + SAME_TASK_EPSILON)
    repel = 1.0 / (squared + DIFFERENT_TASK_EPSILON)
    return _masked_mean(attract, same) + _masked_mean(repel, different)


def _masked_mean(values: Array, mask: Array) -> Scalar:
    return (values * mask).sum() / jnp.maximum(mask.sum(), 1)


def dual_divergence(logit_policy: Array, logit_data: Array) -> Vector:
    """BRAC's KL divergence between policy and data in dual form, per sample.

    The ratio of the two densities is modelled as softplus of the dual critic c, which maximises
    this lower bound: D = log(softplus(c(a_policy)) + 1e-8) - softplus(c(a_data)) + 1.
    """
    return dual_log_ratio(logit_policy) - jax.nn.softplus(logit_data) + 1.0


def dual_log_ratio(logit_policy: Array) -> Vector:
    """The part of the divergence that depends on the policy."""
    return jnp.log(jax.nn.softplus(logit_policy) + DUAL_EPSILON)


def dual_penalty(logit_between: Array) -> Scalar:
    """Keeps c bounded: the mean square of |c|'s excess over 1, between data and policy actions."""
    size = jnp.sqrt(jnp.square(logit_between) + DUAL_EPSILON)
    return jnp.square(jnp.maximum(size - 1.0, 0.0)).mean()


def td_target(reward: Vector, terminated: Vector, next_value: Vector, discount: float) -> Vector:
    """r + discount * V(s'), with no future after termination; a time limit is no termination."""
    return reward + discount * (1.0 - terminated) * next_value


def squared_error(prediction: jax.Array, target: jax.Array) -> Scalar:
    """Mean squared error; no gradient to the target."""
    return jnp.square(prediction - jax.lax.stop_gradient(target)).mean()


def soft_value(q: Vector, log_prob: Vector, temperature: Scalar) -> Vector:
    """The value of an action drawn from the policy, with its share of entropy (SAC)."""
    return q - temperature * log_prob


def temperature_loss(log_temperature: Scalar, log_prob: Vector, target_entropy: float) -> Scalar:
    """SAC's: the temperature rises while the policy's entropy is below its target."""
    surplus = jax.lax.stop_gradient(-log_prob.mean() - target_entropy)
    return jnp.exp(log_temperature) * surplus


def twin_error(values: Sequence[Vector], target: Vector) -> Scalar:
    """The squared errors of twin critics, summed; no gradient to the target."""
    return squared_error(values[0], target) + squared_error(values[1], target)


def td3_bc_policy_loss(q: Vector, action: Action, data_action: Action, bc_weight: float) -> Scalar:
    """TD3+BC: the critic's value, scaled to size one, against staying near the data."""
    scale = jax.lax.stop_gradient(jnp.maximum(jnp.abs(q).mean(), DUAL_EPSILON))
    return -q.mean() / scale + bc_weight * jnp.square(action - data_action).mean()


def model_loss(reward: Array, next_obs: Array, rewards: Array, next_observations: Array) -> Scalar:
    """The ensemble's loss (Appendix B): squared reward error plus squared distance in state.

    `reward` [n] and `next_obs` [n, obs_dim] are data; the predictions have a model axis in front.
    """
    reward_error = jnp.square(reward - rewards)  # [L, n]
    state_error = jnp.square(next_obs - next_observations).sum(axis=-1)  # [L, n]
    return (reward_error + state_error).mean()


def gaussian_kl(
    mean: Array,
    log_variance: Array,
    prior_mean: Array | float = 0.0,
    prior_log_variance: Array | float = 0.0,
) -> jax.Array:
    """KL(N(mean, variance) || prior) of diagonal Gaussians, summed over the last axis.

    The prior is N(0, I) unless it is given.
    """
    gap = log_variance - prior_log_variance
    scaled = jnp.square(mean - prior_mean) * jnp.exp(-prior_log_variance)
    return 0.5 * (jnp.exp(gap) + scaled - 1.0 - gap).sum(axis=-1)


def weighted_mean(values: Array, weight: Array) -> Scalar:
    """The mean of the values that `weight` marks; 0 if it marks none."""
    return (values * weight).sum() / jnp.maximum(weight.sum(), 1.0)


def advantage_weights(advantage: Vector, weight: Vector, temperature: float, most: float) -> Vector:
    """exp(standardised advantage / temperature), at most `most`; no gradient.

    The advantages [n] are standardised by those whose `weight` [n] is 1.
    """
    advantage = jax.lax.stop_gradient(advantage)
    mean = weighted_mean(advantage, weight)
    variance = weighted_mean(jnp.square(advantage - mean), weight)
    standardised = (advantage - mean) / jnp.sqrt(variance + ADVANTAGE_EPSILON)
    return jnp.exp(jnp.minimum(standardised / temperature, math.log(most)))


def discounted_returns(reward: Array, valid: Array, discount: float) -> jax.Array:
    """The discounted sum of the rewards from each step to the episode's end, [..., horizon]."""

    def add(later: jax.Array, now: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = now + discount * later
        return total, total

    steps = jnp.moveaxis(reward * valid, -1, 0)
    _, totals = jax.lax.scan(add, jnp.zeros(steps.shape[1:]), steps, reverse=True)
    return jnp.moveaxis(totals, 0, -1)
