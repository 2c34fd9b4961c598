"""Options of adaptation: counts, and what is refused."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.errors import IdaqError
from idaq.settings import AdaptConfig, split_episodes


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"num_reference_episodes": 0}, "`adapt.num_reference_episodes` is 0"),
        ({"num_reference_episodes": -1}, "num_reference_episodes` is -1"),
        ({"num_iterative_episodes": 0}, "num_iterative_episodes` is 0"),
        ({"keep_percent": 0.0}, "keep_percent` is 0"),
        ({"keep_percent": -5.0}, "keep_percent` is -5"),
        ({"keep_percent": 100.5}, "keep_percent` is 100.5"),
        ({"keep_percent": float("nan")}, "keep_percent` is nan"),
        ({"keep_percent": float("inf")}, "keep_percent` is inf"),
        ({"episodes_per_hypothesis": 0}, "episodes_per_hypothesis` is 0"),
        ({"num_candidates": 0}, "num_candidates` is 0"),
        ({"num_expert_episodes": 0}, "num_expert_episodes` is 0"),
        (
            {"episodes_per_hypothesis": 3},
            r"num_reference_episodes` is 10.* a multiple of `adapt.episodes_per_hypothesis` \(3\)",
        ),
        (
            {"episodes_per_hypothesis": 2},
            r"num_iterative_episodes` is 10.* a multiple of .* \(2\), and one more",
        ),
    ],
)
def test_out_of_range_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(IdaqError, match=named):
        AdaptConfig(**options)


@pytest.mark.parametrize("keep_percent", [1e-6, 10.0, 100.0])
def test_any_percentage_is_allowed(keep_percent: float) -> None:
    assert AdaptConfig(keep_percent=keep_percent).keep_percent == keep_percent


def test_defaults_are_the_papers_for_point_robot() -> None:
    """20 episodes, half of them reference, k = 10, n_e = 1 (Appendix C)."""
    config = AdaptConfig()
    assert config.num_episodes == 20
    assert config.num_reference_episodes == config.num_iterative_episodes == 10
    assert (config.keep_percent, config.episodes_per_hypothesis) == (10.0, 1)
    assert (config.accept, config.final) == ("threshold", "posterior")
    assert (config.reference, config.num_candidates) == ("farthest", 20)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 5))
def test_repeats_count_against_the_budget(repeats: int, hypotheses: int, iterations: int) -> None:
    config = AdaptConfig(
        num_reference_episodes=repeats * hypotheses,
        num_iterative_episodes=repeats * iterations + 1,
        episodes_per_hypothesis=repeats,
    )
    assert config.num_reference_hypotheses == hypotheses
    assert config.num_episodes == repeats * (hypotheses + iterations) + 1


@given(st.integers(-2, 60), st.integers(1, 6))
def test_a_budget_is_split_or_refused(num_episodes: int, repeats: int) -> None:
    """It is split exactly if it can be, and what an error suggests can be split."""
    fits = num_episodes > repeats and (num_episodes - 1) % repeats == 0
    if fits:
        split = split_episodes(num_episodes, repeats)
        config = AdaptConfig(episodes_per_hypothesis=repeats, **split)
        assert config.num_episodes == num_episodes
        reference = config.num_reference_episodes
        assert reference == repeats or num_episodes / 2 - repeats < reference <= num_episodes / 2
        if repeats == 1:
            assert split["num_reference_episodes"] == num_episodes // 2
        return
    with pytest.raises(IdaqError, match=f"`episodes` is {num_episodes}") as error:
        split_episodes(num_episodes, repeats)
    suggested = re.search(r"(\d+)(?: or (\d+))?\.$", str(error.value))
    assert suggested
    for number in filter(None, suggested.groups()):
        split_episodes(int(number), repeats)
