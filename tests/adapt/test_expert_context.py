"""Expert context: the hypothesis comes from given episodes, and one episode is run."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.expert_context import ExpertContext
from idaq.settings import AdaptConfig
from idaq.types import Episodes
from tests import fakes

FAMILY = fakes.Targets(((0.0, 0.0), (2.0, 1.0)))


def given_episodes(actions: Any, lengths: Any) -> Episodes:
    """[seeds, tasks, n, horizon, ...] with one action per episode."""
    actions, lengths = np.asarray(actions, np.float32), np.asarray(lengths)
    lead = (*actions.shape[:-1], fakes.HORIZON)
    nothing = jnp.zeros(lead, bool)
    valid = np.arange(fakes.HORIZON) < lengths[..., None]
    spread = np.broadcast_to(actions[..., None, :], (*lead, 2))
    return Episodes(
        obs=jnp.zeros((*lead, 1)),
        action=jnp.asarray(np.where(valid[..., None], spread, 100.0)),
        reward=jnp.zeros(lead),
        next_obs=jnp.zeros((*lead, 1)),
        terminated=nothing,
        success=nothing,
        valid=jnp.asarray(valid),
    )


def test_hypothesis_is_that_of_the_given_steps() -> None:
    actions = [[[(1.0, 0.0), (4.0, 0.0)], [(2.0, 1.0), (2.0, 1.0)]]]
    given = given_episodes(actions, [[[1, 2], [3, 3]]])
    found = fakes.adapt(
        "expert-context",
        AdaptConfig(num_expert_episodes=2),
        FAMILY,
        [fakes.agent([(0.0, 0.0)])],
        given=given,
    )
    assert found["returns"].shape == (1, 2, 1)
    np.testing.assert_allclose(found["hypotheses"][0, :, 0], [[3.0, 0.0], [2.0, 1.0]])
    np.testing.assert_allclose(found["returns"][0, :, 0], [-9.0, 0.0], atol=1e-5)
    assert found["success"][0, :, 0].tolist() == [False, True]
    assert not found["kept"].any()


def test_without_given_episodes_it_refuses() -> None:
    adapter = ExpertContext(AdaptConfig(), fakes.ActsAsBelieved())
    with pytest.raises(ValueError, match="not given"):
        adapter.init(fakes.agent([(0.0, 0.0)]), jax.random.key(0), None)
