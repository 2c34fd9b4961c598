"""Posterior sampling with all online context."""

from typing import Any

import numpy as np
import pytest

from idaq.settings import AdaptConfig
from tests import fakes

PRIOR = [(1.0, 0.0), (-1.0, 2.0), (0.0, 1.0), (4.0, -1.0), (2.0, 2.0)]
FAMILY = fakes.Targets(((0.0, 0.0), (2.0, 1.0), (-3.0, 0.5)), lengths=(3, 2, 1))


def options(**changes: Any) -> AdaptConfig:
    defaults: dict[str, Any] = {
        "num_reference_episodes": 4,
        "num_iterative_episodes": 3,
        "reference": "prior",
    }
    return AdaptConfig(**(defaults | changes))


@pytest.mark.parametrize("repeats", [1, 2])
def test_every_episode_so_far_is_context(repeats: int) -> None:
    config = options(episodes_per_hypothesis=repeats)
    found = fakes.adapt("posterior", config, FAMILY, [fakes.agent(PRIOR)] * 2)
    hypotheses = found["hypotheses"].astype(np.float64)
    assert hypotheses.shape == (2, 3, 7, 2)
    for index in range(4, 7):
        mean = hypotheses[:, :, :index].mean(axis=2)
        np.testing.assert_allclose(hypotheses[:, :, index], mean, rtol=1e-5, atol=1e-6)


def test_reference_hypotheses_run_n_e_episodes_each() -> None:
    found = fakes.adapt(
        "posterior", options(episodes_per_hypothesis=2), FAMILY, [fakes.agent(PRIOR)]
    )
    reference = found["hypotheses"][:, :, :4]
    np.testing.assert_array_equal(reference[:, :, 0::2], reference[:, :, 1::2])


def test_all_but_the_scored_episode_are_marked_as_context() -> None:
    found = fakes.adapt("posterior", options(), FAMILY, [fakes.agent(PRIOR)])
    assert found["kept"][..., :-1].all()
    assert not found["kept"][..., -1].any()


def test_posterior_zero_explores_without_a_hypothesis() -> None:
    found = fakes.adapt("posterior-zero", options(), FAMILY, [fakes.agent(PRIOR)])
    np.testing.assert_array_equal(found["hypotheses"], 0.0)


def test_padding_is_no_context() -> None:
    """Episodes of one step each: the steps after the end change no belief."""
    found = fakes.adapt("posterior", options(), FAMILY, [fakes.agent(PRIOR)])
    assert found["valid"].sum(axis=-1)[0].tolist() == [[3] * 7, [2] * 7, [1] * 7]
