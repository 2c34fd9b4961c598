"""Searches: what a wrong one returns is refused, and what `iterate="search"` counts as new."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.search import SEARCHES, SearchEntry, Searches, Tried
from idaq.errors import IdaqError
from idaq.settings import AdaptConfig
from tests import fakes
from tests.adapt.cases import OFFSETS
from tests.tiny import keys

# as many seeds, tasks and hypotheses as in the other tests, which compile the same shapes
NUM_SEEDS, NUM_PRIOR = 3, 8
FAR = fakes.Targets(tuple((float(x), 300.0) for x in range(6)))  # nothing resembles the logs


def config(num_iterative: int) -> AdaptConfig:
    return AdaptConfig(
        num_reference_episodes=4,
        num_iterative_episodes=num_iterative,
        reference="farthest-first",
        keep_percent=25.0,
        iterate="search",
    )


@cache
def found(prior: tuple[tuple[float, float], ...], num_iterative: int, family: fakes.Targets) -> Any:
    agents = [fakes.agent(prior, OFFSETS)] * NUM_SEEDS
    return fakes.adapt("idaq-return", config(num_iterative), family, agents)


# the median distance is 2.5 and their mean is 52: only the first leaves all of them apart
ONE_AWAY = (*[(float(x), 0.0) for x in range(NUM_PRIOR - 1)], (200.0, 0.0))


def test_all_are_run_once_and_then_the_belief() -> None:
    results = found(ONE_AWAY, 8, FAR)
    for seed in range(NUM_SEEDS):
        for task in range(FAR.num_tasks):
            hypotheses, kept = (results[name][seed, task] for name in ("hypotheses", "kept"))
            assert sorted(hypotheses[:NUM_PRIOR].tolist()) == [list(each) for each in ONE_AWAY]
            for index in range(NUM_PRIOR, len(hypotheses)):
                belief = hypotheses[:index][kept[:index]].mean(axis=0)
                np.testing.assert_allclose(hypotheses[index], belief, rtol=1e-5, atol=1e-6)


def twins(apart: float) -> tuple[tuple[float, float], ...]:
    """The corners of a square of side 10, each with a neighbour; half of all pairs are 10 apart."""
    corners = [(0.0, 0.0), (10.0, 0.0), (0.0, 10.0), (10.0, 10.0)]
    return tuple(corners + [(x, y + (apart if y else -apart)) for x, y in corners])


def median_distance(prior: tuple[tuple[float, float], ...]) -> float:
    places = np.asarray(prior)
    distance = np.linalg.norm(places[:, None] - places, axis=-1)
    return float(np.median(distance[np.triu_indices(len(places), 1)]))


@pytest.mark.parametrize(("apart", "alike"), [(0.9, True), (1.2, False)])
def test_alike_is_a_tenth_of_the_median_distance(apart: float, alike: bool) -> None:
    """The neighbour of a corner that was run is new or not."""
    prior = twins(apart)
    assert (apart < 0.1 * median_distance(prior)) == alike
    results = found(prior, 5, FAR)["hypotheses"][:, :, :NUM_PRIOR].reshape(-1, NUM_PRIOR, 2)
    members = {tuple(each) for each in np.asarray(prior, np.float32).tolist()}
    for rows in results.tolist():
        assert len({tuple(row) for row in rows} & members) == (4 if alike else NUM_PRIOR)


# --- Searches from outside --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "returned"),
    [
        (lambda config, prior, key: prior[:2], r"an array of shape \[2, 2\]"),
        (lambda config, prior, key: prior, r"an array of shape \[8, 2\]"),
        (lambda config, prior, key: prior[:4, :1], r"an array of shape \[4, 1\]"),
        (lambda config, prior, key: prior[0], r"an array of shape \[2\]"),
        (lambda config, prior, key: None, "None"),
    ],
)
def test_another_number_of_first_hypotheses_is_refused(first: Any, returned: str) -> None:
    """Indices beyond the end would be clamped, and the last one tried again and again."""
    changes: Any = {"num_reference_episodes": 8, "num_iterative_episodes": 1, "reference": "bad"}
    options = AdaptConfig(episodes_per_hypothesis=2, **changes)
    message = rf"'bad' returned {returned}, where \[4, 2\] is needed\. Return \[num_ref.*, latent"
    with SEARCHES.registered(SearchEntry(name="bad", label="bad", first=first)):
        searches = Searches.of(options)
    with pytest.raises(IdaqError, match=message):
        jax.vmap(lambda key: searches.first(options, jnp.asarray(ONE_AWAY), key))(keys(0, 1))


def test_a_next_hypothesis_of_another_shape_is_refused() -> None:
    bad = SearchEntry(name="bad", label="bad", next=lambda tried: jnp.zeros(3))
    places = jnp.asarray(ONE_AWAY)
    tried = Tried(
        prior=places,
        posterior=places[0],
        hypotheses=places,
        was_tried=places[:, 0] > 0,
        uncertainty=places[:, 0],
        logged_uncertainty=places[0, 0],
        contradiction=jnp.zeros(len(places)),
        num_left=jnp.asarray(1),
    )
    message = r"of shape \[3\], where \[2\] is needed\. Return \[latent_dim\]"
    with SEARCHES.registered(bad), pytest.raises(IdaqError, match=message):
        Searches.of(AdaptConfig(iterate="bad")).next(tried)
