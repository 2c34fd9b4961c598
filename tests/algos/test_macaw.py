"""MACAW's inner and outer loop against float64 loops and finite differences."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.algos.data import contiguous_places, random_places, sample_tasks
from idaq.algos.macaw.inner import MacawConfig
from idaq.algos.macaw.outer import Macaw, State, positive
from idaq.engine.loading import returns_to_go
from idaq.errors import IdaqError
from idaq.storage.dataset import Dataset
from idaq.types import Episodes
from tests import baseline_oracles as expected
from tests import oracles, tiny
from tests.learners.setting import in_float64

MACAW = Macaw(tiny.MACAW, tiny.SPEC)
RAW = Macaw(replace(tiny.MACAW, normalise=False), tiny.SPEC)
KEY = jax.random.key(5)
POLICY_SIZES, VALUE_SIZES = (3, 6, 5, 2), (3, 6, 5, 1)


@cache
def state() -> State:
    """A state whose rates are large enough for a step to matter."""
    fresh: State = MACAW.init(tiny.data(), jax.random.key(2))
    rng = np.random.default_rng(0)
    rates = jax.tree.map(lambda x: rng.uniform(0.01, 0.05), fresh.rates)
    learned = jax.tree.map(softplus_inverse, rates._replace(advantage_weight=0.3))
    return fresh._replace(rates=jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), learned))


def softplus_inverse(rate: float) -> float:
    return math.log(math.exp(rate) - 1.0)


def own_rates() -> Any:
    """The rates of `state` themselves."""
    return jax.tree.map(lambda x: np.log1p(np.exp(x)), in_float64(state().rates))


class Rows:
    """Logged rows in the networks' units, for the oracles."""

    def __init__(self, obs: Any, action: Any, target: Any) -> None:
        normaliser, returns = in_float64(tiny.data().normaliser), in_float64(state().returns)
        self.obs = (np.asarray(obs, np.float64) - normaliser.obs_mean) / normaliser.obs_std
        self.action = np.asarray(action, np.float64)
        self.target = (np.asarray(target, np.float64) - returns.mean) / returns.std


def rows_at(places: Any) -> Rows:
    data = tiny.data()
    assert data.return_to_go is not None
    return Rows(data.rows.obs[places], data.rows.action[places], data.return_to_go[places])


def flat(layers: Any) -> oracles.Floats:
    return np.concatenate([expected.emitted(*layer) for layer in layers])


def values_of(weights: oracles.Floats, rows: Rows) -> list[float]:
    layers = expected.as_layers(weights, VALUE_SIZES)
    return [oracles.mlp(layers, obs)[0] for obs in rows.obs]


def inner_step(
    rows: Rows, rates: Any = None, head_weight: float | None = None
) -> tuple[oracles.Floats, oracles.Floats]:
    """The emitted weights of policy and V after the step, gradients by central differences."""
    networks, own = in_float64(state().networks), own_rates()
    rates = own if rates is None else rates
    head_weight = float(own.advantage_weight) if head_weight is None else head_weight
    value_gradient = oracles.numerical_gradient(
        lambda x: expected.value_loss(x, VALUE_SIZES, rows.obs, rows.target), flat(networks.value)
    )
    value = expected.inner_step(networks.value, rates.value, value_gradient)
    advantages = [t - v for t, v in zip(rows.target, values_of(value, rows), strict=True)]

    def policy_loss(x: oracles.Floats) -> float:
        return expected.policy_loss(
            x,
            POLICY_SIZES,
            rows.obs,
            rows.action,
            advantages,
            head=networks.advantage,
            head_weight=head_weight,
        )

    policy_gradient = oracles.numerical_gradient(policy_loss, flat(networks.policy))
    return expected.inner_step(networks.policy, rates.policy, policy_gradient), value


def outer_losses(rows: Rows, policy: oracles.Floats, value: oracles.Floats) -> tuple[float, float]:
    advantages = [t - v for t, v in zip(rows.target, values_of(value, rows), strict=True)]
    return (
        expected.value_loss(value, VALUE_SIZES, rows.obs, rows.target),
        expected.policy_loss(policy, POLICY_SIZES, rows.obs, rows.action, advantages),
    )


@cache
def sampled() -> list[tuple[Rows, Rows]]:
    """The inner and outer rows of every task of the update with `KEY`."""
    config, data = MACAW.config, tiny.data()
    tasks_key, inner_key, outer_key = jax.random.split(KEY, 3)
    tasks = sample_tasks(data, config.meta_batch_size, tasks_key)
    inner = contiguous_places(data, tasks, config.inner_batch_size, inner_key)
    outer = random_places(data, tasks, config.outer_batch_size, outer_key)
    return [(rows_at(i), rows_at(o)) for i, o in zip(inner, outer, strict=True)]


# --- The inner step -------------------------------------------------------------------------


def own_rows(episodes: Episodes, keep: list[int]) -> Rows:
    """The steps of the kept episodes, their returns by loops."""
    obs, action, target = [], [], []
    low, high = np.asarray(tiny.SPEC.action_low), np.asarray(tiny.SPEC.action_high)
    for index in keep:
        length = int(np.asarray(episodes.valid[index]).sum())
        rewards = np.asarray(episodes.reward[index, :length], np.float64).tolist()
        target += expected.discounted_returns(rewards, MACAW.config.discount)
        obs += list(np.asarray(episodes.obs[index, :length]))
        scaled = 2.0 * (np.asarray(episodes.action[index, :length]) - low) / (high - low) - 1.0
        action += list(scaled)
    return Rows(np.asarray(obs), np.asarray(action), np.asarray(target))


def test_inference_is_one_step_of_v_and_then_of_the_policy() -> None:
    agent, episodes = MACAW.finish(state(), tiny.data()), tiny.episodes(3)
    adapted = MACAW.inner_step(agent, episodes, jnp.asarray([True, False, True]))
    policy, value = inner_step(own_rows(episodes, [0, 2]))
    assert oracles.agree(jnp.concatenate(adapted.value), value, rtol=1e-4, atol=1e-5)
    assert oracles.agree(jnp.concatenate(adapted.policy), policy, rtol=1e-4, atol=1e-5)
    without_head, _ = inner_step(own_rows(episodes, [0, 2]), head_weight=0.0)
    assert not oracles.agree(jnp.concatenate(adapted.policy), without_head, rtol=1e-4, atol=1e-5)
    hypothesis = MACAW.encode(agent, episodes, jnp.asarray([True, False, True]))
    np.testing.assert_array_equal(hypothesis, [*jnp.concatenate(adapted.policy), 0.0])


def test_nothing_kept_is_the_initialisation() -> None:
    agent = MACAW.finish(state(), tiny.data())
    adapted = MACAW.inner_step(agent, tiny.episodes(2), jnp.zeros(2, bool))
    assert tiny.close(adapted, MACAW.initial(agent), rtol=1e-6, atol=1e-7)


def test_the_prior_are_the_policies_of_the_training_tasks() -> None:
    agent = MACAW.finish(state(), tiny.data())
    policy, _ = inner_step(rows_at(np.arange(21, 24)))  # all three rows of task 3
    assert oracles.agree(agent.prior[2, :-1], policy, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(agent.prior[:, -1], 0.0)


# --- The outer step -------------------------------------------------------------------------


def test_outer_losses_are_those_of_the_stepped_networks_on_other_rows() -> None:
    _, metrics = tiny.compiled_update(MACAW)(state(), tiny.data(), KEY)
    losses = [outer_losses(outer, *inner_step(inner)) for inner, outer in sampled()]
    value, policy = np.mean(losses, axis=0)
    assert oracles.agree(metrics["value_loss"], value, rtol=1e-4)
    assert oracles.agree(metrics["policy_loss"], policy, rtol=1e-4)


@pytest.mark.parametrize(
    ("network", "layer", "tensor"), [("policy", 1, 0), ("policy", 2, 1), ("value", 0, 2)]
)
def test_rates_follow_the_outer_loss(network: str, layer: int, tensor: int) -> None:
    """The first Adam step goes against the derivative through the inner step."""
    after, _ = tiny.compiled_update(MACAW)(state(), tiny.data(), KEY)
    own = own_rates()

    def outer(rate: float) -> float:
        layers = [list(each) for each in getattr(own, network)]
        layers[layer][tensor] = rate
        rates = own._replace(**{network: layers})
        pairs = [outer_losses(o, *inner_step(i, rates)) for i, o in sampled()]
        return float(np.mean(pairs, axis=0)[0 if network == "value" else 1])

    at = float(getattr(own, network)[layer][tensor])
    slope = (outer(at + 1e-4) - outer(at - 1e-4)) / 2e-4
    before = float(getattr(state().rates, network)[layer][tensor])
    moved = float(getattr(after.rates, network)[layer][tensor]) - before
    assert abs(slope) > 1e-4
    assert moved == pytest.approx(-np.sign(slope) * MACAW.config.rate_learning_rate, rel=0.02)


def test_rates_begin_where_they_are_told_to() -> None:
    agent = MACAW.finish(MACAW.init(tiny.data(), KEY), tiny.data())
    for rate in jax.tree.leaves((agent.rates.policy, agent.rates.value)):
        assert float(rate) == pytest.approx(MACAW.config.inner_rate)
    assert float(agent.rates.advantage_weight) == pytest.approx(MACAW.config.advantage_weight)


def test_rates_stay_positive() -> None:
    small = jax.tree.map(lambda x: jnp.full_like(x, -10.0), state().rates)
    after, metrics = tiny.compiled_update(MACAW)(state()._replace(rates=small), tiny.data(), KEY)
    moved = [float(x) for x in jax.tree.leaves(after.rates)]
    assert min(moved) < -10.0
    rates = [float(x) for x in jax.tree.leaves(positive(after.rates))]
    assert all(0.0 < rate < 1e-4 for rate in rates)
    shown = np.mean([np.log1p(np.exp(float(x))) for x in jax.tree.leaves(after.rates.policy)])
    assert float(metrics["policy_rate"]) == pytest.approx(shown, rel=1e-3)


# --- Returns --------------------------------------------------------------------------------


def test_returns_are_standardised_by_training_rows() -> None:
    data = tiny.data()
    own = np.concatenate([np.arange(0, 8), np.arange(8, 13), np.arange(21, 24), np.arange(24, 32)])
    values = np.asarray(data.return_to_go, np.float64)[own]
    fitted = state().returns
    assert oracles.agree(fitted.mean, values.mean())
    assert oracles.agree(fitted.std, values.std())
    assert [float(x) for x in RAW.init(data, KEY).returns] == [0.0, 1.0]


def test_returns_to_go_end_with_the_episode(datasets: dict[str, Dataset]) -> None:
    dataset = datasets["point-robot"]
    computed = np.asarray(returns_to_go(dataset, 0.9))
    for episode in (0, 7, dataset.num_episodes - 1):
        start, stop = dataset.arrays["episode_offsets"][episode : episode + 2]
        wanted = expected.discounted_returns(dataset.arrays["rewards"][start:stop].tolist(), 0.9)
        assert oracles.agree(computed[start:stop], wanted)


# --- Acting and fine-tuning -----------------------------------------------------------------


def test_only_a_hypothesis_that_explores_is_random() -> None:
    agent, obs = MACAW.finish(state(), tiny.data()), jnp.ones(3)
    networks = MACAW.initial(agent)
    for explores in (False, True):
        hypothesis = MACAW.hypothesis(networks, explores)
        first, second = (
            MACAW.act(agent, hypothesis, (), obs, jax.random.key(k))[0] for k in (0, 1)
        )
        assert bool((first != second).any()) == explores


def test_fine_tuning_lowers_the_losses_on_its_episodes() -> None:
    algorithm = Macaw(tiny.MACAW, tiny.SPEC)
    agent, episodes = algorithm.finish(state(), tiny.data()), tiny.episodes(3)
    keep = jnp.asarray([True, True, False])
    before = algorithm.inner_step(agent, episodes, keep)
    after = algorithm.fine_tune(agent, before, episodes, keep, 50, 1e-2)
    rows = own_rows(episodes, [0, 1])
    losses = [
        outer_losses(rows, *(np.asarray(jnp.concatenate(x), np.float64) for x in each))
        for each in (before, after)
    ]
    assert losses[1][0] < losses[0][0]
    assert losses[1][1] < losses[0][1]
    assert tiny.same(algorithm.fine_tune(agent, before, episodes, keep, 0, 1e-2), before)


@pytest.mark.parametrize(
    "change",
    [
        {"action_std": 0.0},
        {"discount": 1.5},
        {"hidden": ()},
        {"max_weight": 0.5},
        {"inner_rate": 0.0},  # no softplus is
        {"advantage_weight": 0.0},
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(IdaqError):
        MacawConfig(**change)


def test_metrics_show_the_mean_rates() -> None:
    after, metrics = tiny.compiled_update(MACAW)(state(), tiny.data(), KEY)
    rates = positive(after.rates)
    for name, own in (("policy_rate", rates.policy), ("value_rate", rates.value)):
        shown = np.mean([float(rate) for rate in jax.tree.leaves(own)])
        assert float(metrics[name]) == pytest.approx(shown, rel=1e-5)
    assert float(metrics["advantage_weight"]) == pytest.approx(float(rates.advantage_weight))
