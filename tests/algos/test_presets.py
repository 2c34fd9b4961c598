"""Presets go by what a family is like."""

from typing import Any

import pytest

from idaq.algos.presets import check_preset, context_settings, is_small, metric_weight, schedule
from idaq.errors import IdaqError
from idaq.types import Traits

JAX = Traits(horizon=20)
LOGS = Traits(horizon=20, has_environment=False)
SIMULATOR = Traits(horizon=200, simulator=True)
ML1 = Traits(horizon=500, simulator=True, group="ml1")


@pytest.mark.parametrize(
    ("traits", "small"),
    [
        (JAX, True),
        (Traits(horizon=5_000), True),
        (SIMULATOR, False),
        (Traits(horizon=20, simulator=True), False),
        (LOGS, True),
        (Traits(horizon=50, has_environment=False), True),
        (Traits(horizon=51, has_environment=False), False),
    ],
)
def test_what_is_small(traits: Traits, small: bool) -> None:
    """Episodes in JAX cost next to nothing; of logs alone, only short ones are taken for small."""
    assert is_small(traits) is small
    width = 64 if small else 256
    assert context_settings("default", traits)["encoder_hidden"] == (width, width)


@pytest.mark.parametrize(("horizon", "discount"), [(1, 0.9), (50, 0.9), (51, 0.99), (200, 0.99)])
def test_a_discount_sees_the_end_of_an_episode(horizon: int, discount: float) -> None:
    learner: Any = context_settings("default", Traits(horizon=horizon))["learner"]
    assert (learner.discount, learner.kind) == (discount, "td3-bc")


def test_simulators_are_cloned_with_few_dimensions() -> None:
    for traits in (SIMULATOR, ML1):
        settings = context_settings("default", traits)
        assert (settings["latent_dim"], settings["learner"].kind) == (5, "bc")
        assert settings["learner"].learning_rate == 1e-3
    assert "latent_dim" not in context_settings("default", JAX)


def test_what_is_of_ml1_alone() -> None:
    ours = {"context_shift": 3.0, "hide_unrelated": True}
    assert ours.items() <= context_settings("default", ML1).items()
    assert not ours.keys() & context_settings("default", SIMULATOR).keys()
    assert "context_size" not in context_settings("paper", ML1)
    assert context_settings("paper", SIMULATOR)["context_size"] == 100
    weights = [metric_weight("paper", ML1), metric_weight("default", ML1)]
    assert [*weights, metric_weight("paper", SIMULATOR)] == [100.0, 10.0, 10.0]


def test_what_is_of_point_robot_alone() -> None:
    paper = context_settings("paper", Traits(group="point", horizon=20))
    assert (paper["context_size"], paper["learner"].reward_scale) == (1024, 100.0)
    assert paper["learner"].divergence == "none"
    assert "learner" not in context_settings("paper", JAX)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_next_observations_are_seen_where_dynamics_differ(preset: str) -> None:
    for traits in (Traits(horizon=20), SIMULATOR):
        assert "next_obs" not in context_settings(preset, traits)
        differ = traits.__class__(**{**vars(traits), "dynamics_differ": True})
        assert context_settings(preset, differ)["next_obs"] is True


def test_how_long() -> None:
    found = {
        (preset, name): (
            schedule(preset, traits)[0].num_updates,
            schedule(preset, traits)[1].num_episodes,
            schedule(preset, traits)[1].keep_percent,
            schedule(preset, traits)[1].iterate,
        )
        for preset in ("paper", "default")
        for name, traits in {"jax": JAX, "simulator": SIMULATOR, "ml1": ML1}.items()
    }
    assert found == {
        ("paper", "jax"): (50_000, 20, 10.0, "posterior"),
        ("paper", "simulator"): (100_000, 10, 20.0, "posterior"),
        ("paper", "ml1"): (300_000, 10, 20.0, "posterior"),
        ("default", "jax"): (2_000, 20, 10.0, "untried"),
        ("default", "simulator"): (10_000, 10, 20.0, "search"),
        ("default", "ml1"): (10_000, 10, 20.0, "search"),
    }
    assert schedule("paper", ML1)[1].num_candidates == 5
    assert schedule("default", ML1)[1].num_candidates == 20


def test_an_unknown_preset() -> None:
    check_preset("paper")
    with pytest.raises(IdaqError, match=r"no preset 'papre'\. Known: default, paper"):
        check_preset("papre")
