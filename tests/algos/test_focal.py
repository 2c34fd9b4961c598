"""FOCAL: what trains the encoder and what does not, the prior, inference, and units."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.algos.data import sample_rows, sample_tasks, scale_action
from idaq.algos.focal import FocalConfig
from idaq.errors import IdaqError
from tests import oracles, tiny
from tests.learners.setting import in_float64, moved_alike

KEY = jax.random.key(3)
SMALL = tiny.ALGORITHMS["td3-bc"]
WITH_MODELS = tiny.ALGORITHMS["td3-bc+models"]


def network_rows(rows: Any) -> Any:
    """Rows in the networks' units, by NumPy."""
    n = in_float64(tiny.data().normaliser)
    return rows._replace(
        obs=(np.asarray(rows.obs, np.float64) - n.obs_mean) / n.obs_std,
        next_obs=(np.asarray(rows.next_obs, np.float64) - n.obs_mean) / n.obs_std,
        reward=(np.asarray(rows.reward, np.float64) - n.reward_mean) / n.reward_std,
        action=np.asarray(rows.action, np.float64),
    )


def transitions(rows: Any, index: Any) -> list[list[float]]:
    """(s, a, r) of the rows under an index, one list each."""
    fields = rows.obs[index], rows.action[index], rows.reward[index]
    return [[*obs, *action, float(reward)] for obs, action, reward in zip(*fields, strict=True)]


# --- The encoder ----------------------------------------------------------------------------


def encoder_oracle(values: oracles.Floats, metric_weight: float) -> float:
    """The weighted metric loss of the update's own tasks and context rows."""
    config, data = SMALL.config, tiny.data()
    tasks_key, context_key, _, _ = jax.random.split(KEY, 4)
    tasks = sample_tasks(data, config.meta_batch_size, tasks_key)
    rows = network_rows(sample_rows(data, tasks, config.context_size, context_key))
    encoder = oracles.unflatten(values, in_float64(tiny.first_state(SMALL).encoder))
    embeddings = [oracles.embed_context(encoder, transitions(rows, i)) for i in range(len(tasks))]
    return metric_weight * oracles.metric_loss(np.asarray(embeddings), tasks.tolist())


def test_encoder_takes_an_adam_step_on_the_metric_loss_alone() -> None:
    before = tiny.first_state(SMALL)
    after, metrics = tiny.compiled_update(SMALL)(before, tiny.data(), KEY)
    values = oracles.flatten(in_float64(before.encoder))
    assert oracles.agree(metrics["metric_loss"], encoder_oracle(values, 10.0))

    gradient = oracles.numerical_gradient(lambda x: encoder_oracle(x, 10.0), values)
    rate = SMALL.config.encoder_learning_rate
    expected = oracles.Adam(values.size, rate).step(values, gradient)
    network = oracles.unflatten(expected, in_float64(before.encoder))
    assert moved_alike(after.encoder, network, gradient, rate)


def test_metric_loss_fails_under_a_mutated_weight() -> None:
    before = tiny.first_state(SMALL)
    _, metrics = tiny.compiled_update(SMALL)(before, tiny.data(), KEY)
    values = oracles.flatten(in_float64(before.encoder))
    assert not oracles.agree(metrics["metric_loss"], encoder_oracle(values, 10.01))


def shifted(context_shift: float, start_std: tuple[float, ...]) -> Any:
    """The update of an encoder whose contexts are shifted."""
    algorithm = tiny.context_based(replace(SMALL.config, context_shift=context_shift))
    data = tiny.data().replaced(start_std=jnp.asarray(start_std))
    return tiny.compiled_update(algorithm)(tiny.first_state(SMALL), data, KEY)


def test_context_shift_moves_whole_contexts_along_what_the_first_observations_show() -> None:
    config, data = SMALL.config, tiny.data()
    tasks_key, context_key, _, _ = jax.random.split(KEY, 4)
    tasks = sample_tasks(data, config.meta_batch_size, tasks_key)
    rows = sample_rows(data, tasks, config.context_size, context_key)
    shift_key = jax.random.fold_in(context_key, 1)
    shift = np.asarray(jax.random.normal(shift_key, (len(tasks), 1, 3)))
    shift = 2.0 * np.asarray([0.2, 0.0, 1.5]) * shift
    rows = network_rows(rows._replace(obs=np.asarray(rows.obs) + shift))
    encoder = in_float64(tiny.first_state(SMALL).encoder)
    embeddings = [oracles.embed_context(encoder, transitions(rows, i)) for i in range(len(tasks))]
    expected = 10.0 * oracles.metric_loss(np.asarray(embeddings), tasks.tolist())
    assert oracles.agree(shifted(2.0, (0.2, 0.0, 1.5))[1]["metric_loss"], expected)


def test_context_shift_is_nothing_where_all_tasks_start_alike() -> None:
    plain, _ = tiny.compiled_update(SMALL)(tiny.first_state(SMALL), tiny.data(), KEY)
    same, _ = shifted(2.0, (0.0, 0.0, 0.0))
    other, _ = shifted(2.0, (0.2, 0.0, 1.5))
    assert tiny.close(same.encoder, plain.encoder, rtol=1e-5, atol=1e-6)
    assert not tiny.close(other.encoder, plain.encoder, rtol=1e-5, atol=1e-6)


def test_what_is_hidden_reaches_no_network() -> None:
    """Neither training nor the agent depends on it, once it is asked for."""
    hiding = tiny.context_based(replace(SMALL.config, hide_unrelated=True))
    data, other = tiny.data(), tiny.data(seed=1)
    hidden = np.asarray(data.unrelated)
    assert hidden.any()
    changed = data.replaced(
        rows=data.rows._replace(
            obs=jnp.where(hidden, other.rows.obs, data.rows.obs),
            next_obs=jnp.where(hidden, other.rows.next_obs, data.rows.next_obs),
        )
    )
    for algorithm, same in ((hiding, True), (SMALL, False)):
        state = algorithm.init(data, KEY)
        agents = []
        for each in (data, changed):
            after, _ = tiny.compiled_update(algorithm)(state, each, KEY)
            agents.append(algorithm.finish(after, each))
        assert tiny.close(agents[0], agents[1], rtol=0.0, atol=0.0) == same
        episodes = tiny.episodes(2)
        unseen = episodes._replace(obs=jnp.where(hidden, 9.0, episodes.obs))
        views = [algorithm.encode(agents[0], e, jnp.ones(2, bool)) for e in (episodes, unseen)]
        assert tiny.close(views[0], views[1], rtol=0.0, atol=0.0) == same
        obs = episodes.obs[0, 0], unseen.obs[0, 0]
        actions = [algorithm.act(agents[0], views[0], (), each, KEY)[0] for each in obs]
        assert np.isfinite(actions[0]).all()
        assert tiny.close(actions[0], actions[1], rtol=0.0, atol=0.0) == same


@pytest.mark.parametrize("name", ["sac-brac+models", "sac+models", "td3-bc+models", "bc+models"])
def test_only_the_metric_loss_has_a_gradient_to_the_encoder(name: str) -> None:
    algorithm = tiny.ALGORITHMS[name]
    state = tiny.first_state(algorithm)

    def metrics_of(encoder: Any) -> Any:
        return algorithm.update(state._replace(encoder=encoder), tiny.data(), KEY)[1]

    gradients = jax.jit(jax.jacrev(metrics_of), compiler_options=tiny.QUICK)(state.encoder)
    assert {"policy_loss", "model_loss", "metric_loss"} <= set(gradients)
    for metric, gradient in gradients.items():
        size = max(float(np.abs(leaf).max()) for leaf in tiny.leaves(gradient))
        assert (size > 0.0) == (metric == "metric_loss"), metric


def test_encoder_learns_the_same_behind_every_learner() -> None:
    encoders = [tiny.trained(tiny.ALGORITHMS[name], 3).encoder for name in tiny.ALGORITHMS]
    for encoder in encoders[1:]:
        assert tiny.close(encoder, encoders[0], rtol=1e-5, atol=1e-6)
    assert not tiny.close(encoders[0], tiny.first_state(SMALL).encoder, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", tiny.LEARNERS)
def test_models_leave_the_policy_as_it_is(name: str) -> None:
    """Training them beside it draws no other batches and no other noise."""
    without = tiny.trained(tiny.ALGORITHMS[name], 4)
    beside = tiny.trained(tiny.ALGORITHMS[f"{name}+models"], 4)
    assert tiny.close(without.learner, beside.learner, rtol=1e-5, atol=1e-6)
    assert tiny.close(without.encoder, beside.encoder, rtol=1e-5, atol=1e-6)


# --- Time limits ----------------------------------------------------------------------------


def test_critic_bootstraps_except_at_termination() -> None:
    """Without terminations the next state's value counts everywhere; with them, nowhere."""
    data, state = tiny.data(), tiny.first_state(SMALL)
    rows = data.rows
    other_next = rows._replace(next_obs=rows.next_obs + 1.0)

    def target(rows: Any, terminated: float) -> float:
        ended = rows._replace(terminated=jnp.full_like(rows.terminated, terminated))
        update = tiny.compiled_update(SMALL)
        return float(update(state, data.replaced(rows=ended), KEY)[1]["q_target"])

    assert target(rows, 0.0) != target(other_next, 0.0)
    assert target(rows, 1.0) == target(other_next, 1.0)


# --- Models ---------------------------------------------------------------------------------


def test_models_learn_normalised_rewards_and_next_observations() -> None:
    """The loss of Appendix B on the learner's own batch, in the networks' units."""
    config, data, state = WITH_MODELS.config, tiny.data(), tiny.first_state(WITH_MODELS)
    _, metrics = tiny.compiled_update(WITH_MODELS)(state, data, KEY)
    tasks_key, context_key, batch_key, _ = jax.random.split(KEY, 4)
    tasks = sample_tasks(data, config.meta_batch_size, tasks_key)
    context = network_rows(sample_rows(data, tasks, config.context_size, context_key))
    batch = network_rows(sample_rows(data, tasks, config.batch_size, batch_key))
    encoder, ensemble = in_float64(state.encoder), in_float64(state.judge)

    rewards: list[list[float]] = [[], []]
    states: list[list[list[float]]] = [[], []]
    for i in range(config.meta_batch_size):
        z = oracles.embed_context(encoder, transitions(context, i))
        for j in range(config.batch_size):
            inputs = [*batch.obs[i, j], *z, *batch.action[i, j]]
            for model in range(2):
                pick = jax.tree.map(lambda x, m=model: x[m], ensemble)
                rewards[model].append(oracles.mlp(pick.reward, inputs)[0])
                states[model].append(oracles.mlp(pick.dynamics, inputs))
    expected = oracles.model_loss(
        batch.reward.reshape(-1),
        batch.next_obs.reshape(-1, tiny.SPEC.obs_dim),
        np.asarray(rewards),
        np.asarray(states),
    )
    assert oracles.agree(metrics["model_loss"], expected)


def test_prediction_is_in_the_networks_units() -> None:
    agent = WITH_MODELS.finish(tiny.first_state(WITH_MODELS), tiny.data())
    episode = jax.tree.map(lambda x: x[0], tiny.episodes(1))
    hypothesis = jnp.asarray([0.3, -0.2, 0.8])
    seen = WITH_MODELS.read(agent, episode, hypothesis)
    n = in_float64(tiny.data().normaliser)
    assert oracles.agree(seen.reward, (np.asarray(episode.reward) - n.reward_mean) / n.reward_std)
    assert oracles.agree(seen.next_obs, (np.asarray(episode.next_obs) - n.obs_mean) / n.obs_std)
    np.testing.assert_array_equal(seen.valid, episode.valid)
    obs = (np.asarray(episode.obs, np.float64) - n.obs_mean) / n.obs_std
    action = np.asarray(scale_action(tiny.SPEC, episode.action), np.float64)
    for model in range(2):
        pick = jax.tree.map(lambda x, m=model: x[m], in_float64(agent.judge))
        for t in range(tiny.SPEC.horizon):
            inputs = [*obs[t], *np.asarray(hypothesis), *action[t]]
            assert oracles.agree(seen.rewards[model, t], oracles.mlp(pick.reward, inputs)[0])
            expected = oracles.mlp(pick.dynamics, inputs)
            assert oracles.agree(seen.next_observations[model, t], expected)


def test_predicting_without_models_says_what_to_do() -> None:
    agent = SMALL.finish(tiny.first_state(SMALL), tiny.data())
    episode = jax.tree.map(lambda x: x[0], tiny.episodes(1))
    with pytest.raises(IdaqError, match="Train it with an ensemble"):
        SMALL.read(agent, episode, jnp.zeros(tiny.LATENT_DIM))


# --- The prior and inference ----------------------------------------------------------------


def test_prior_is_the_embedding_of_all_rows_of_each_training_task() -> None:
    """Also where tasks have different numbers of rows: every row counts once."""
    agent = SMALL.finish(tiny.first_state(SMALL), tiny.data())
    rows, encoder = network_rows(tiny.data().rows), in_float64(agent.encoder)
    starts = np.concatenate([[0], np.cumsum(tiny.TASK_COUNTS)])
    assert agent.prior.shape == (len(tiny.TRAIN_TASKS), tiny.LATENT_DIM)
    for place, task in enumerate(tiny.TRAIN_TASKS):
        own = slice(starts[task], starts[task + 1])
        expected = oracles.embed_context(encoder, transitions(rows, own))
        assert oracles.agree(agent.prior[place], expected), f"task {task}"


def test_inference_uses_the_steps_of_the_kept_episodes() -> None:
    agent = SMALL.finish(tiny.first_state(SMALL), tiny.data())
    episodes = tiny.episodes(4, seed=1)
    keep = np.array([True, False, True, False])
    rows = network_rows(
        episodes._replace(action=np.asarray(scale_action(tiny.SPEC, episodes.action)))
    )
    valid = np.asarray(episodes.valid)
    assert not valid.all()
    kept = [
        step
        for i in np.flatnonzero(keep)
        for step in transitions(jax.tree.map(lambda x, i=i: x[i], rows), valid[i])
    ]
    actual = SMALL.encode(agent, episodes, jnp.asarray(keep))
    assert oracles.agree(actual, oracles.embed_context(in_float64(agent.encoder), kept))


def test_nothing_kept_is_the_zero_hypothesis() -> None:
    agent = SMALL.finish(tiny.first_state(SMALL), tiny.data())
    nothing = SMALL.encode(agent, tiny.episodes(3), jnp.zeros(3, bool))
    np.testing.assert_array_equal(nothing, 0.0)


def test_without_normalise_networks_see_raw_values() -> None:
    raw = tiny.changed("td3-bc", normalise=False)
    agent = raw.finish(tiny.first_state(raw), tiny.data())
    obs = jnp.asarray([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(agent.normaliser.obs(obs), obs)
    normalised = SMALL.finish(tiny.first_state(SMALL), tiny.data())
    np.testing.assert_array_equal(normalised.normaliser.obs_mean, tiny.data().normaliser.obs_mean)


def test_rows_of_other_tasks_are_never_read() -> None:
    """Garbage in the rows of the held-out tasks changes nothing."""
    data = tiny.data()
    starts = np.concatenate([[0], np.cumsum(tiny.TASK_COUNTS)])
    held_out = np.zeros(starts[-1], bool)
    for task in set(range(tiny.NUM_TASKS)) - set(tiny.TRAIN_TASKS):
        held_out[starts[task] : starts[task + 1]] = True
    garbage = jax.tree.map(
        lambda x: jnp.where(held_out.reshape(-1, *[1] * (x.ndim - 1)), jnp.nan, x), data.rows
    )
    spoiled = data.replaced(rows=garbage)
    clean, dirty = tiny.trained(SMALL, 3), tiny.trained(SMALL, 3, on=spoiled)
    assert tiny.same(clean, dirty)
    assert tiny.same(SMALL.finish(clean, data), SMALL.finish(dirty, spoiled))


def test_defaults_are_the_papers() -> None:
    config = FocalConfig()
    assert (config.latent_dim, config.encoder_hidden) == (20, (200, 200, 200))
    assert (config.meta_batch_size, config.batch_size, config.metric_weight) == (16, 256, 10.0)
    assert config.learner.kind == "sac-brac"
    assert not config.normalise
    assert replace(config, judge=None).judge is None
