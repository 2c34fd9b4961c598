"""The uncertainties that read the logs, against NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.likeness import ENTRIES
from idaq.adapt.uncertainty import Uncertainty, view_of
from idaq.algos.logs import compare
from idaq.errors import IdaqError
from idaq.runs.adapt_stage import check_models
from idaq.runs.resolve import resolve, without_judge
from tests import tiny

NUM = 2  # episodes of the hypothesis
NAMED = {entry.name: entry for entry in ENTRIES}
ALGORITHM = tiny.changed("td3-bc", logged_rows=8)


def agent() -> Any:
    return tiny.agent(ALGORITHM)


def near_logs() -> Any:
    """Episodes around the logs of the first training task."""
    data, episodes = tiny.data(), tiny.episodes(NUM, seed=4)
    low, high = np.asarray(tiny.SPEC.action_low), np.asarray(tiny.SPEC.action_high)
    action = low + 0.5 * (np.asarray(data.rows.action[:8]) + 1) * (high - low)
    return episodes._replace(
        obs=data.rows.obs[:8].reshape(NUM, 4, -1) + 0.05,
        action=jnp.asarray(action, jnp.float32).reshape(NUM, 4, -1),
        reward=data.rows.reward[:8].reshape(NUM, 4) + jnp.asarray([0.0, 0.02, 0.04, 1.0]),
    )


def value(entry: Uncertainty, episodes: Any, hypothesis: Any, of: Any = None) -> float:
    view = view_of(ALGORITHM, agent() if of is None else of)
    return float(entry.quantify(episodes, hypothesis, view))


def expected(name: str, episodes: Any, task: int) -> float:
    remembered = agent().logs
    returns = np.asarray(episodes.returns)
    far, unlike = [], []
    for each in range(NUM):
        episode = jax.tree.map(lambda x, i=each: x[i], episodes)
        seen = compare(remembered, tiny.SPEC, episode)
        steps = np.asarray(episode.valid)
        close, error = (np.asarray(x)[steps, task] for x in (seen.closeness, seen.error))
        far.append((1 - close).mean())
        unlike.append((1 - close * (1 - error)).mean())
    logged = float(tiny.data().mean_return)
    values = {
        "relative-return": float(remembered.returns[task]) - returns.mean(),
        "distance-to-logs": np.mean(far),
        "unlikeness": np.mean(unlike),
        "return-and-unlikeness": np.mean(unlike) - returns.mean() / abs(logged),
    }
    return float(values[name])


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("task", [0, 2])
def test_values(name: str, task: int) -> None:
    """The logs are those of the training task whose embedding is nearest."""
    episodes, prior = near_logs(), agent().prior
    hypothesis = prior[task] + 1e-4
    found = value(NAMED[name], episodes, hypothesis)
    assert found == pytest.approx(expected(name, episodes, task), rel=1e-3, abs=1e-4)


def test_they_tell_the_own_logs_from_others() -> None:
    episodes, prior = near_logs(), agent().prior
    for name in ("distance-to-logs", "unlikeness"):
        own, others = (value(NAMED[name], episodes, prior[task]) for task in (0, 1))
        assert own < others - 0.1


@pytest.mark.parametrize("name", NAMED)
def test_of_logged_episodes(name: str) -> None:
    """What an episode like the logs has; searches take it as what can be hoped for."""
    of_logs = [float(NAMED[name].of_logs(jnp.asarray(x))) for x in (-5.0, 8.0)]
    assert of_logs == ([1.0, -1.0] if name == "return-and-unlikeness" else [0.0, 0.0])


def test_agents_that_remember_nothing_are_refused() -> None:
    config = without_judge(resolve("paper", "point-robot"))
    with pytest.raises(IdaqError, match=r"agents remember none.*logged_rows=256"):
        check_models("idaq-unlikeness", config)
    check_models("idaq-unlikeness", without_judge(resolve("default", "point-robot")))
    check_models("idaq-return", config)
