"""OP+CL: the encoder learns from the metric, the divergence and Q's loss, and from nothing else."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.algos.data import sample_rows, sample_tasks
from idaq.algos.entries import make_algorithm
from idaq.algos.op_cl import OpClConfig
from idaq.errors import IdaqError
from idaq.learners.bc import BcConfig
from idaq.learners.losses import gaussian_kl
from idaq.nets import context
from tests import baseline_oracles as expected
from tests import oracles, tiny
from tests.algos.test_focal import network_rows, transitions
from tests.learners.setting import in_float64, moved_alike

OP_CL = tiny.context_based(tiny.OP_CL)
KEY = jax.random.key(3)


def posterior(encoder: oracles.Layers, rows: list[list[float]]) -> tuple[Any, Any]:
    """The product of the factors that a network gives."""
    outputs = np.asarray([oracles.mlp(encoder, row) for row in rows])
    variances = np.asarray([[oracles.softplus(x) for x in row[3:]] for row in outputs])
    return expected.product_of_gaussians(outputs[:, :3], variances)


def encoder_losses(values: oracles.Floats) -> dict[str, float]:
    """The update's own losses of an encoder; targets come from the encoder before the step."""
    config, data, state = OP_CL.config, tiny.data(), tiny.first_state(OP_CL)
    tasks_key, context_key, batch_key, learner_key = jax.random.split(KEY, 4)
    tasks = sample_tasks(data, config.meta_batch_size, tasks_key)
    contexts = network_rows(sample_rows(data, tasks, config.context_size, context_key))
    batch = network_rows(sample_rows(data, tasks, config.batch_size, batch_key))
    noise = jax.random.normal(jax.random.fold_in(context_key, 2), (len(tasks), tiny.LATENT_DIM))

    def embed(encoder: oracles.Layers) -> tuple[Any, Any]:
        posteriors = [posterior(encoder, transitions(contexts, i)) for i in range(len(tasks))]
        z = np.asarray(
            [
                m + np.sqrt(v) * np.asarray(n, np.float64)
                for (m, v), n in zip(posteriors, noise, strict=True)
            ]
        )
        return z, posteriors

    first = in_float64(state.encoder)
    z, posteriors = embed(oracles.unflatten(values, first))
    constant, _ = embed(first)
    learner = in_float64(state.learner)
    flat = [np.asarray(x, np.float64).reshape(-1, *np.shape(x)[2:]) for x in batch]
    target_noise = np.asarray(jax.random.normal(learner_key, flat[1].shape), np.float64)
    # the loss of Q at z; the target at the constant sample
    embeddings = (np.repeat(each, config.batch_size, axis=0) for each in (z, constant))
    obs, action, reward, next_obs, terminated = flat
    rows, fixed = (
        oracles.Rows(obs, action, reward, next_obs, terminated, each) for each in embeddings
    )
    q_loss = _td3_loss(learner, rows, fixed, target_noise)
    zero, one = np.zeros(tiny.LATENT_DIM), np.ones(tiny.LATENT_DIM)
    kl = np.mean([expected.gaussian_kl(m, v, zero, one) for m, v in posteriors])
    return {
        "metric_loss": 10.0 * oracles.metric_loss(z, tasks.tolist()),
        "kl_loss": 0.1 * float(kl),
        "q_loss": q_loss,
    }


def _td3_loss(learner: Any, rows: Any, fixed: Any, noise: oracles.Floats) -> float:
    """TD3's loss with the embedding of the target held constant."""
    total = 0.0
    for i in range(len(rows)):
        next_state = [*fixed.next_obs[i], *fixed.z[i]]
        next_action = []
        for output, n in zip(oracles.mlp(learner.target_policy, next_state), noise[i], strict=True):
            shake = min(max(0.2 * float(n), -0.5), 0.5)
            next_action.append(min(max(np.tanh(output) + shake, -1.0), 1.0))
        value = min(oracles.mlp(q, [*next_state, *next_action])[0] for q in learner.target_q)
        target = oracles.td_target(float(rows.reward[i]), float(rows.terminated[i]), value)
        for q in learner.q:
            predicted = oracles.mlp(q, [*rows.obs[i], *rows.z[i], *rows.action[i]])[0]
            total += (predicted - target) ** 2 / len(rows)
    return total


def test_encoder_takes_an_adam_step_on_all_three_losses() -> None:
    before = tiny.first_state(OP_CL)
    after, metrics = tiny.compiled_update(OP_CL)(before, tiny.data(), KEY)
    values = oracles.flatten(in_float64(before.encoder))
    losses = encoder_losses(values)
    for name, value in losses.items():
        assert oracles.agree(metrics[name], value, rtol=1e-4), name
    gradient = oracles.numerical_gradient(lambda x: sum(encoder_losses(x).values()), values)
    rate = OP_CL.config.encoder_learning_rate
    wanted = oracles.Adam(values.size, rate).step(values, gradient)
    network = oracles.unflatten(wanted, in_float64(before.encoder))
    assert moved_alike(after.encoder, network, gradient, rate)


def test_divergence_by_hand() -> None:
    mean, variance = np.asarray([0.5, -1.0]), np.asarray([0.25, 2.0])
    prior_mean, prior_variance = np.asarray([0.1, 0.3]), np.asarray([1.5, 0.5])
    actual = gaussian_kl(mean, np.log(variance), prior_mean, np.log(prior_variance))
    assert oracles.agree(actual, expected.gaussian_kl(mean, variance, prior_mean, prior_variance))
    standard = gaussian_kl(mean, np.log(variance))
    assert oracles.agree(standard, expected.gaussian_kl(mean, variance, np.zeros(2), np.ones(2)))
    assert float(gaussian_kl(np.zeros(2), np.zeros(2))) == 0.0


def test_product_of_gaussians() -> None:
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(2, 6, 3)), rng.uniform(0.1, 3.0, size=(2, 6, 3))
    mean, variance = context.product_of_gaussians(means, variances)
    for i in range(2):
        wanted = expected.product_of_gaussians(means[i], variances[i])
        assert oracles.agree(mean[i], wanted[0])
        assert oracles.agree(variance[i], wanted[1])


def test_factors_of_no_weight_are_left_out() -> None:
    rng = np.random.default_rng(1)
    means, variances = rng.normal(size=(4, 3)), rng.uniform(0.1, 3.0, size=(4, 3))
    weight = jnp.asarray([1.0, 0.0, 1.0, 0.0])
    mean, variance = context.product_of_gaussians(means, variances, weight)
    wanted = expected.product_of_gaussians(means[::2], variances[::2])
    assert oracles.agree(mean, wanted[0])
    assert oracles.agree(variance, wanted[1])
    nothing = context.product_of_gaussians(means, variances, jnp.zeros(4))
    np.testing.assert_array_equal(nothing, [[0.0] * 3, [1.0] * 3])


def test_a_hypothesis_is_the_posterior_mean() -> None:
    agent, episodes = tiny.agent(OP_CL), tiny.episodes(2)
    length = int(np.asarray(episodes.valid[1]).sum())
    low, high = np.asarray(tiny.SPEC.action_low), np.asarray(tiny.SPEC.action_high)
    n = in_float64(agent.normaliser)
    rows = []
    for step in range(length):
        obs = (np.asarray(episodes.obs[1, step], np.float64) - n.obs_mean) / n.obs_std
        action = 2.0 * (np.asarray(episodes.action[1, step], np.float64) - low) / (high - low) - 1.0
        reward = (float(episodes.reward[1, step]) - n.reward_mean) / n.reward_std
        rows.append([*obs, *action, float(reward)])
    mean, _ = posterior(in_float64(agent.encoder), rows)
    actual = OP_CL.encode(agent, episodes, jnp.asarray([False, True]))
    assert oracles.agree(actual, mean, rtol=1e-4, atol=1e-5)


def test_a_learner_without_a_critic_is_refused() -> None:
    with pytest.raises(IdaqError, match="critic"):
        make_algorithm(OpClConfig(learner=BcConfig()), tiny.SPEC)
