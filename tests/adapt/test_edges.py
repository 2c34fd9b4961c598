"""Edges of the iterative stage: no reference episode that can be judged, and the log's scale."""

import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.search import ALIKE, SAME_HYPOTHESIS
from idaq.adapt.uncertainty import UNCERTAINTIES
from tests import fakes
from tests.adapt.cases import options

HUGE = 1e30  # finite, but its length is not: errors under it are no numbers


def test_the_first_episode_that_can_be_judged_is_an_improvement() -> None:
    """Nothing is kept of the reference stage, so the belief is nothing, which predicts well."""
    config = options(accept="improvement", final="best")
    family = fakes.Targets(((0.0, 0.0), (1.0, 2.0)))
    agents = [fakes.agent([(HUGE, 0.0)] * 4, (0.0, 0.0))]
    found = fakes.adapt("idaq-prediction-error", config, family, agents)
    assert np.isnan(found["uncertainty"][..., :4]).all()
    assert not found["kept"][..., :4].any()
    np.testing.assert_array_equal(found["hypotheses"][:, :, 4:], 0.0)
    np.testing.assert_array_equal(found["uncertainty"][..., 4:], 0.0)
    assert found["kept"][0].tolist() == [[False] * 4 + [True] + [False] * 3] * 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [("return", [-3.0, 2.0]), ("prediction-error", [0, 0]), ("prediction-variance", [0, 0])],
)
def test_uncertainty_of_the_logs(name: str, expected: list[float]) -> None:
    assert UNCERTAINTIES[name].of_logs(jnp.asarray([3.0, -2.0])).tolist() == expected


def test_hypotheses_that_are_one() -> None:
    assert (SAME_HYPOTHESIS, ALIKE) == (1e-6, 0.1)
