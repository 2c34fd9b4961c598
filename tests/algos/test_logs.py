"""What agents remember of the logs, and what that says of an episode, against loops in NumPy."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from idaq.algos.data import scale_action
from idaq.algos.entries import logs_of
from idaq.algos.logs import MAX_STEPS, Logs, compare, contradiction, no_logs, remember
from idaq.types import Episodes
from tests import tiny

Floats = NDArray[np.float64]
ROWS = 6  # tasks have 8, 5, 3 and 8


def logs(*, sees_effects: bool = False, num_rows: int = ROWS) -> Logs:
    config = tiny.changed("td3-bc", logged_rows=num_rows, next_obs=sees_effects).config
    remembered = remember(config, tiny.data())
    assert remembered is not None
    return remembered


def rows_of(task: int) -> slice:
    data = tiny.data()
    start = int(data.task_start[task])
    return slice(start, start + int(data.task_count[task]))


def inputs_of(obs: Any, action: Any) -> Floats:
    """In standard units, as the normaliser of `tiny.data` has them."""
    units = tiny.data().normaliser
    obs = (np.asarray(obs, np.float64) - np.asarray(units.obs_mean)) / np.asarray(units.obs_std)
    return np.concatenate([obs, np.asarray(action, np.float64)], axis=-1)


def test_rows_are_those_of_the_task_evenly_over_its_logs() -> None:
    data, remembered = tiny.data(), logs()
    for place, task in enumerate(tiny.TRAIN_TASKS):
        rows = rows_of(task)
        count = rows.stop - rows.start
        chosen = [int(i * max(count / ROWS, 1)) for i in range(ROWS)]
        exists = [i < count for i in chosen]
        np.testing.assert_array_equal(remembered.exists[place], exists)
        expected = inputs_of(data.rows.obs[rows], data.rows.action[rows])
        rewards = (np.asarray(data.rows.reward[rows]) - 0.25) / 0.75
        for i, (row, is_there) in enumerate(zip(chosen, exists, strict=True)):
            if is_there:
                np.testing.assert_allclose(remembered.inputs[place, i], expected[row], rtol=1e-5)
                assert float(remembered.outcomes[place, i, 0]) == pytest.approx(rewards[row], 1e-4)


def test_each_tasks_mean_return() -> None:
    data, remembered = tiny.data(), logs()
    for place, task in enumerate(tiny.TRAIN_TASKS):
        num_episodes = len(tiny.EPISODE_LENGTHS[task])
        total = float(np.asarray(data.rows.reward[rows_of(task)]).sum())
        assert float(remembered.returns[place]) == pytest.approx(total / num_episodes, rel=1e-4)


def test_effects_are_changes_of_the_state() -> None:
    data, remembered = tiny.data(), logs(sees_effects=True)
    rows, std = rows_of(0), np.asarray(data.normaliser.obs_std)
    change = (np.asarray(data.rows.next_obs[rows]) - np.asarray(data.rows.obs[rows])) / std
    np.testing.assert_allclose(remembered.outcomes[0, 0, 1:], change[0], rtol=1e-4, atol=1e-5)


def oracle(remembered: Logs, episode: Episodes) -> tuple[Floats, Floats]:
    """Closeness and error, [steps, tasks], one pair of transitions at a time."""
    action = np.asarray(scale_action(tiny.SPEC, episode.action))
    own = inputs_of(episode.obs, action)
    reward = (np.asarray(episode.reward) - 0.25) / 0.75
    inputs, outcomes = np.asarray(remembered.inputs), np.asarray(remembered.outcomes)
    shape = (len(own), len(inputs))
    closeness, error = np.zeros(shape), np.zeros(shape)
    for step, task in np.ndindex(*shape):
        best = float("inf")
        for row in np.flatnonzero(np.asarray(remembered.exists)[task]):
            distance = float(np.linalg.norm(inputs[task, row] - own[step]))
            if distance < best:
                best = distance
                error[step, task] = min(abs(outcomes[task, row, 0] - reward[step]) / 0.1, 1.0)
        closeness[step, task] = np.exp(-0.5 * (best / 0.4) ** 2) * bool(episode.valid[step])
    return closeness, error


def overlapping() -> Logs:
    """All tasks have been near the same places, with outcomes of their own."""
    remembered, rng = logs(), np.random.default_rng(3)
    noise = 0.2 * rng.normal(size=remembered.inputs.shape)
    inputs = np.asarray(remembered.inputs)[:1] + noise
    return remembered._replace(inputs=jnp.asarray(inputs, jnp.float32))


def near_the_logs(seed: int) -> Episodes:
    """An episode some of whose steps are near logged transitions."""
    data, rng = tiny.data(), np.random.default_rng(seed)
    episode = jax.tree.map(lambda x: x[0], tiny.episodes(1, seed))
    rows = [int(rng.integers(*rows_of(task).indices(99)[:2])) for task in (0, 1, 4, 0)]
    low, high = np.asarray(tiny.SPEC.action_low), np.asarray(tiny.SPEC.action_high)
    scaled = np.asarray(data.rows.action)[rows]
    noise = 0.1 * rng.normal(size=(4, 3))
    changed: Episodes = episode._replace(
        valid=jnp.arange(4) < 3,
        obs=jnp.asarray(np.asarray(data.rows.obs)[rows] + noise, jnp.float32),
        action=jnp.asarray(low + 0.5 * (scaled + 1) * (high - low), jnp.float32),
        reward=jnp.asarray(np.asarray(data.rows.reward)[rows] + [0.0, 0.03, 0.5, -0.02]),
    )
    return changed


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_comparison_and_contradiction(seed: int) -> None:
    remembered, episode = overlapping(), near_the_logs(seed)
    closeness, error = oracle(remembered, episode)
    seen = compare(remembered, tiny.SPEC, episode)
    np.testing.assert_allclose(seen.closeness, closeness, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(seen.error, error, rtol=2e-3, atol=1e-3)
    usual = (closeness * error).sum(axis=1) / closeness.sum(axis=1).clip(1e-9)
    against = (closeness * (error - usual[:, None])).sum(axis=0)
    found = contradiction(remembered, tiny.SPEC, episode)
    np.testing.assert_allclose(found, against, rtol=5e-3, atol=1e-3)
    assert np.abs(against).max() > 0.05, "or the test compares zeros"
    one = compare(remembered, tiny.SPEC, episode, jnp.asarray(2))
    np.testing.assert_allclose(one.closeness[:, 0], closeness[:, 2], rtol=2e-3, atol=1e-4)


def test_a_tasks_own_episode_speaks_for_it() -> None:
    data, remembered = tiny.data(), logs(num_rows=8)
    low, high = np.asarray(tiny.SPEC.action_low), np.asarray(tiny.SPEC.action_high)
    for place, task in enumerate(tiny.TRAIN_TASKS):
        rows = slice(rows_of(task).start, rows_of(task).start + 3)
        padded = [*range(rows.start, rows.stop), rows.start]
        episode = Episodes(
            obs=data.rows.obs[np.asarray(padded)],
            action=low + 0.5 * (data.rows.action[np.asarray(padded)] + 1) * (high - low),
            reward=data.rows.reward[np.asarray(padded)],
            next_obs=data.rows.next_obs[np.asarray(padded)],
            terminated=jnp.zeros(4, bool),
            success=jnp.zeros(4, bool),
            valid=jnp.arange(4) < 3,
        )
        seen = compare(remembered, tiny.SPEC, episode, jnp.asarray(place))
        np.testing.assert_allclose(seen.closeness[:3], 1.0, atol=1e-3)
        np.testing.assert_allclose(seen.closeness[3:], 0.0)
        np.testing.assert_allclose(seen.error[:3], 0.0, atol=1e-3)
        others = np.delete(np.asarray(contradiction(remembered, tiny.SPEC, episode)), place)
        assert float(contradiction(remembered, tiny.SPEC, episode)[place]) <= others.min() + 1e-3


def test_what_is_far_from_all_logs_speaks_for_nothing() -> None:
    episode = jax.tree.map(lambda x: x[0], tiny.episodes(1))
    far = episode._replace(obs=episode.obs + 1e3)
    np.testing.assert_array_equal(contradiction(logs(), tiny.SPEC, far), np.zeros(4))


def test_long_episodes_are_thinned() -> None:
    spec = replace(tiny.SPEC, horizon=1_000)
    shape = (spec.horizon,)
    episode = Episodes(
        obs=np.zeros((*shape, 3)),
        action=np.zeros((*shape, 2)),
        reward=np.arange(1_000.0),
        next_obs=np.zeros((*shape, 3)),
        terminated=np.zeros(shape, bool),
        success=np.zeros(shape, bool),
        valid=np.arange(1_000) < 500,
    )
    seen = compare(logs(), spec, episode)
    assert seen.closeness.shape == (MAX_STEPS, 4)
    assert int(seen.is_step.sum()) == MAX_STEPS // 2


def test_an_agent_remembers_as_many_rows_as_it_is_told() -> None:
    forgetful = tiny.changed("td3-bc")
    agent = tiny.agent(forgetful)
    assert agent.logs is None
    assert logs_of(forgetful, agent) is None
    mindful = tiny.changed("td3-bc", logged_rows=5)
    agent = tiny.agent(mindful)
    assert agent.logs.inputs.shape == (4, 5, 5)
    assert tiny.same_structure(agent, mindful.agent_shapes(4))
    assert tiny.same_structure(agent.logs, no_logs(mindful.config, tiny.SPEC, 4))
    assert all(
        np.array_equal(a, b)
        for a, b in zip(
            tiny.leaves(agent._replace(logs=None)), tiny.leaves(tiny.agent(forgetful)), strict=True
        )
    ), "training does not depend on it"


def test_logs_are_in_standard_units_also_where_networks_are_not() -> None:
    plain = tiny.agent(tiny.changed("td3-bc", logged_rows=5, normalise=False))
    usual = tiny.agent(tiny.changed("td3-bc", logged_rows=5))
    np.testing.assert_allclose(plain.logs.inputs, usual.logs.inputs)


def test_what_is_hidden_from_networks_is_hidden_from_comparisons() -> None:
    agent = tiny.agent(tiny.changed("td3-bc", logged_rows=5, hide_unrelated=True))
    np.testing.assert_array_equal(agent.logs.inputs[..., 2], 0.0)
