"""BOReL: the bound's terms, its sequences, its phases, and the belief it carries."""

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.algos.borel.algorithm import Borel, Sequences, State
from idaq.errors import IdaqError
from idaq.nets import vae
from tests import baseline_oracles as expected
from tests import oracles, tiny
from tests.learners.setting import in_float64

BOREL = Borel(tiny.BOREL, tiny.SPEC)
ORACLE = Borel(replace(tiny.BOREL, relabel=True, relabel_share=1.0), tiny.SPEC)
POLICY = replace(BOREL, phase="policy")
KEY = jax.random.key(9)
TASKS = jnp.asarray([1, 4, 3])


@cache
def state() -> State:
    fresh: State = BOREL.init(tiny.data(), jax.random.key(1))
    return fresh


@cache
def sequences(algorithm: Borel = BOREL) -> Sequences:
    return algorithm._sample(state(), tiny.data(), TASKS, KEY)


def test_the_bound_decodes_everything_from_every_prefix() -> None:
    """Sequences whose steps all took place, one at a time."""
    drawn = sequences()
    whole = drawn._replace(valid=jnp.ones_like(drawn.valid))
    reconstruction, kl = BOREL.elbo_terms(state().vae, whole, KEY)
    noise_key, _, _ = jax.random.split(KEY, 3)
    rows = in_float64(whole.rows)
    memories = vae.unroll(state().vae.encoder, *whole.rows[:3], whole.valid)
    means, log_variances = vae.belief(state().vae.encoder, memories)
    noise = jax.random.normal(noise_key, means.shape)
    terms = []
    for i in range(len(TASKS)):
        steps = [
            [*obs, *action, *next_obs]
            for obs, action, next_obs in zip(
                rows.obs[i], rows.action[i], rows.next_obs[i], strict=True
            )
        ]
        mean, log_variance, n = (
            np.asarray(x[i], np.float64) for x in (means, log_variances, noise)
        )
        decoder = in_float64(state().vae.decoder)
        rewards = rows.reward[i].tolist()
        terms.append(expected.elbo_terms(decoder, mean, log_variance, n, steps, rewards))
    wanted = np.mean(terms, axis=0)
    assert oracles.agree(reconstruction, wanted[0])
    assert oracles.agree(kl, wanted[1])


def test_steps_that_did_not_take_place_cost_nothing() -> None:
    drawn = sequences()
    assert not bool(drawn.valid.all())
    padded = jnp.where(drawn.valid, drawn.rows.reward, 1e3)
    spoiled = drawn._replace(rows=drawn.rows._replace(reward=padded))
    for first, second in zip(
        BOREL.elbo_terms(state().vae, drawn, KEY),
        BOREL.elbo_terms(state().vae, spoiled, KEY),
        strict=True,
    ):
        np.testing.assert_array_equal(first, second)


def test_a_part_of_the_bound_is_an_estimate_of_all_of_it() -> None:
    part = Borel(replace(tiny.BOREL, elbo_prefixes=4, decoded_steps=3), tiny.SPEC)
    whole, _ = BOREL.elbo_terms(state().vae, sequences(), KEY)
    estimate = jax.jit(lambda key: part.elbo_terms(state().vae, sequences(), key)[0])
    estimates = [float(estimate(key)) for key in jax.random.split(KEY, 300)]
    assert np.std(estimates) > 0.0
    error = np.std(estimates) / np.sqrt(len(estimates))
    # the whole has other noise in its samples, too
    assert abs(np.mean(estimates) - float(whole)) < 5.0 * error + 0.1 * float(whole)


def test_a_sequence_is_whole_episodes_of_its_task() -> None:
    data, drawn = tiny.data(), sequences()
    horizon = tiny.SPEC.horizon
    starts = np.cumsum([0, *tiny.TASK_COUNTS])
    for i, task in enumerate(TASKS.tolist()):
        own = np.asarray(data.normaliser.obs(data.rows.obs[starts[task] : starts[task + 1]]))
        for episode in range(tiny.BOREL.sequence_episodes):
            part = slice(episode * horizon, (episode + 1) * horizon)
            valid = np.asarray(drawn.valid[i, part])
            seen = np.asarray(drawn.rows.obs[i, part])[valid]
            lengths = tiny.EPISODE_LENGTHS[task]
            assert valid.sum() in lengths
            places = [k for k in range(len(own)) if np.allclose(own[k], seen[0], atol=1e-6)]
            assert places[0] in (0, lengths[0])
            np.testing.assert_allclose(seen, own[places[0] : places[0] + len(seen)], rtol=1e-6)


def test_after_an_episode_comes_the_start_of_the_next() -> None:
    drawn, horizon = sequences(), tiny.SPEC.horizon
    for i in range(len(TASKS)):
        end = int(np.asarray(drawn.valid[i, :horizon]).sum()) - 1
        np.testing.assert_array_equal(drawn.next_state[i, end], drawn.rows.obs[i, horizon])
        np.testing.assert_array_equal(drawn.next_state[i, :end], drawn.rows.next_obs[i, :end])
        np.testing.assert_array_equal(drawn.next_state[i, -1], drawn.rows.next_obs[i, -1])


# --- Relabelling ----------------------------------------------------------------------------


def test_relabelled_rewards_are_those_of_the_sequences_own_task() -> None:
    data, drawn = tiny.data(), sequences(ORACLE)
    normaliser = data.normaliser
    obs, next_obs = (x * normaliser.obs_std + normaliser.obs_mean for x in drawn.rows[0:4:3])
    low, high = np.asarray(tiny.SPEC.action_low), np.asarray(tiny.SPEC.action_high)
    action = low + 0.5 * (np.asarray(drawn.rows.action) + 1.0) * (high - low)
    for i, task in enumerate(TASKS.tolist()):
        for step in range(drawn.valid.shape[1]):
            reward = tiny.reward_of(task, obs[i, step], action[i, step], next_obs[i, step])
            wanted = (reward - normaliser.reward_mean) / normaliser.reward_std
            np.testing.assert_allclose(drawn.rows.reward[i, step], wanted, atol=2e-5)


def test_relabelling_takes_episodes_of_other_training_tasks_alone() -> None:
    data = tiny.data()
    many = jnp.zeros(200, jnp.int32)
    drawn = ORACLE._sample(state(), data, many, KEY)
    firsts = np.asarray(drawn.rows.obs[:, 0])
    starts = np.cumsum([0, *tiny.TASK_COUNTS])
    found = set()
    for task in range(tiny.NUM_TASKS):
        own = np.asarray(data.normaliser.obs(data.rows.obs[starts[task] : starts[task + 1]]))
        matches = [np.abs(own - first).max(axis=1).min() < 1e-5 for first in firsts]
        found |= {task} if any(matches) else set()
    assert found == set(tiny.TRAIN_TASKS)


def test_without_an_oracle_there_is_no_relabelling() -> None:
    with pytest.raises(IdaqError, match="compute rewards"):
        ORACLE.update(state(), tiny.data().replaced(reward_of=None), KEY)
    BOREL.update(state(), tiny.data().replaced(reward_of=None), KEY)


# --- Phases and the belief ------------------------------------------------------------------


def test_each_phase_trains_its_own_part() -> None:
    first, _ = tiny.compiled_update(BOREL)(state(), tiny.data(), KEY)
    second, _ = tiny.compiled_update(POLICY)(state(), tiny.data(), KEY)
    assert tiny.same(first.learner, state().learner)
    assert not tiny.close(first.vae, state().vae, rtol=0.0, atol=1e-6)
    assert tiny.same((second.vae, second.vae_opt), (state().vae, state().vae_opt))
    assert not tiny.close(second.learner.policy, state().learner.policy, rtol=0.0, atol=1e-6)


def test_the_carried_belief_is_the_inferred_one() -> None:
    """Two episodes step by step, the second one from where the first one ended."""
    agent = BOREL.finish(state(), tiny.data())
    carrying = Borel(replace(tiny.BOREL, sequence_episodes=3), tiny.SPEC)
    low, high = jnp.asarray(tiny.SPEC.action_low), jnp.asarray(tiny.SPEC.action_high)
    rng = np.random.default_rng(0)
    hypothesis = carrying.encode(agent, tiny.episodes(2), jnp.zeros(2, bool))
    np.testing.assert_array_equal(hypothesis, 0.0)
    fields: dict[str, list[Any]] = {"obs": [], "action": [], "reward": []}
    for _ in range(2):
        carry = BOREL.init_carry(agent, hypothesis)
        for _ in range(tiny.SPEC.horizon):
            obs = jnp.asarray(rng.normal(size=3), jnp.float32)
            action, carry = BOREL.act(agent, hypothesis, carry, obs, KEY)
            reward = jnp.asarray(rng.normal(), jnp.float32)
            carry = BOREL.take_reward(agent, carry, reward)
            for name, value in (("obs", obs), ("action", action), ("reward", reward)):
                fields[name].append(value)
        hypothesis = carry[0]
    assert bool((jnp.stack(fields["action"]) > low).all())
    assert bool((jnp.stack(fields["action"]) < high).all())
    shape = (2, tiny.SPEC.horizon)
    stacked = {name: jnp.stack(v).reshape(*shape, *v[0].shape) for name, v in fields.items()}
    episodes = tiny.episodes(2)._replace(**stacked, valid=jnp.ones(shape, bool))
    inferred = carrying.encode(agent, episodes, jnp.ones(2, bool))
    np.testing.assert_allclose(hypothesis, inferred, rtol=1e-4, atol=1e-6)


def test_the_belief_starts_from_the_last_episodes_alone() -> None:
    """As many as leave room for one more in a training sequence: here two of three."""
    agent, episodes = BOREL.finish(state(), tiny.data()), tiny.episodes(4)
    three = Borel(replace(tiny.BOREL, sequence_episodes=3), tiny.SPEC)
    keep = jnp.asarray([True, True, False, True])
    last = jnp.asarray([False, True, False, True])
    first, second = (three.encode(agent, episodes, each) for each in (keep, last))
    np.testing.assert_array_equal(first, second)
    only = three.encode(agent, episodes, jnp.asarray([False, False, False, True]))
    assert not tiny.close(first, only, atol=1e-6)


def test_actions_depend_on_what_was_seen_in_the_episode() -> None:
    agent = BOREL.finish(state(), tiny.data())
    carry = BOREL.init_carry(agent, agent.prior[0])
    obs = jnp.ones(3)
    _, carry = BOREL.act(agent, agent.prior[0], carry, obs, KEY)
    actions = [
        BOREL.act(agent, agent.prior[0], BOREL.take_reward(agent, carry, reward), obs, KEY)[0]
        for reward in (jnp.asarray(-3.0), jnp.asarray(3.0))
    ]
    assert bool((actions[0] != actions[1]).any())
