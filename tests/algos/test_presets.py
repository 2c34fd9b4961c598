"""Presets go by what a family is like."""

from typing import Any

import pytest

from idaq.algos.entries import ALGORITHMS
from idaq.algos.presets import check_preset, context_settings, is_small, metric_weight, schedule
from idaq.errors import IdaqError
from idaq.types import Traits

JAX, LONG = Traits(horizon=20), Traits(horizon=256)
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
        ("default", "jax"): (2_000, 20, 10.0, "bayesian"),
        ("default", "simulator"): (10_000, 10, 20.0, "bayesian"),
        ("default", "ml1"): (10_000, 10, 20.0, "bayesian"),
    }
    assert schedule("paper", ML1)[1].num_candidates == 5
    assert schedule("default", ML1)[1].num_candidates == 20


def test_an_unknown_preset() -> None:
    check_preset("paper")
    with pytest.raises(IdaqError, match=r"no preset 'papre'\. Known: default, paper"):
        check_preset("papre")


def of_baseline(algorithm: str, preset: str, traits: Traits) -> tuple[Any, int, int]:
    """Its settings, the updates of training, and the episodes that expert context is given."""
    config = ALGORITHMS[algorithm].preset(preset, traits)
    return config.algorithm, config.train.num_updates, config.adapt.num_expert_episodes


@pytest.mark.parametrize(
    ("preset", "traits", "sizes", "rates", "updates", "given"),
    [
        ("default", LONG, ((64, 64), 32, 16, 64), (1e-3, 1e-3, 1e-2, 1e-2), 2_000, 1),
        ("paper", JAX, ((100, 100, 100), 100, 5, 256), (1e-4, 1e-5, 1e-3, 1e-3), 50_000, 13),
        ("paper", ML1, ((100, 100, 100), 100, 5, 256), (1e-4, 1e-5, 1e-3, 1e-3), 300_000, 1),
        ("default", JAX, ((64, 64), 32, 16, 64), (1e-3, 1e-3, 1e-2, 1e-2), 2_000, 13),
        ("default", SIMULATOR, ((128, 128), 32, 16, 256), (1e-3, 1e-3, 1e-2, 1e-2), 10_000, 1),
    ],
)
def test_macaws_presets(
    preset: str,
    traits: Traits,
    sizes: tuple[Any, ...],
    rates: tuple[float, ...],
    updates: int,
    given: int,
) -> None:
    """The table of docs/macaw.md."""
    config, num_updates, num_given = of_baseline("macaw", preset, traits)
    assert (num_updates, num_given) == (updates, given)
    assert config.inner_batch_size == config.outer_batch_size
    found = (config.hidden, config.code_dim, config.meta_batch_size, config.inner_batch_size)
    assert found == sizes
    names = ("policy_learning_rate", "value_learning_rate", "rate_learning_rate", "inner_rate")
    assert tuple(getattr(config, name) for name in names) == rates
    is_default = preset == "default"
    assert config.normalise is is_default
    assert config.hide_unrelated is (is_default and traits.simulator)
    assert config.discount == (0.9 if is_default and traits is JAX else 0.99)


@pytest.mark.parametrize(("horizon", "given"), [(20, 13), (255, 2), (256, 1), (500, 1)])
def test_macaw_is_given_whole_episodes_of_256_transitions(horizon: int, given: int) -> None:
    assert of_baseline("macaw", "default", Traits(horizon=horizon))[2] == given


@pytest.mark.parametrize(
    ("preset", "traits", "memory", "phases", "sequence", "decoded", "learner"),
    [
        ("paper", JAX, 128, (20_000, 50_000), 2, (0, 0), ("sac-brac", (128, 128), 0.9)),
        ("paper", ML1, 128, (20_000, 300_000), 1, (50, 100), ("sac-brac", (256, 256), 0.99)),
        ("default", JAX, 64, (5_000, 20_000), 4, (20, 40), ("td3-bc", (128, 128), 0.9)),
        ("default", LONG, 64, (5_000, 20_000), 4, (20, 40), ("td3-bc", (128, 128), 0.99)),
        ("paper", LONG, 128, (20_000, 50_000), 2, (0, 0), ("sac-brac", (128, 128), 0.99)),
        ("default", ML1, 128, (5_000, 20_000), 1, (50, 100), ("td3-bc", (256, 256), 0.99)),
    ],
)
def test_borels_presets(
    preset: str,
    traits: Traits,
    memory: int,
    phases: tuple[int, int],
    sequence: int,
    decoded: tuple[int, int],
    learner: tuple[Any, ...],
) -> None:
    """The table of docs/borel.md."""
    config, num_updates, _ = of_baseline("borel", preset, traits)
    assert (config.vae_updates, num_updates) == phases
    assert (config.memory_dim, config.sequence_episodes) == (memory, sequence)
    assert (config.elbo_prefixes, config.decoded_steps) == decoded
    used = config.learner
    assert (used.kind, used.hidden, used.discount) == learner
    is_default = preset == "default"
    assert config.normalise is is_default
    assert config.hide_unrelated is (is_default and traits.simulator)
    assert config.relabel is False
    assert config.vae_learning_rate == (1e-3 if is_default else 3e-4)
    if preset == "paper":
        assert (used.divergence, config.batch_size) == ("none", 256)
    elif traits.simulator:
        assert config.batch_size == 1024
    else:
        assert (config.batch_size, used.target_rate, used.bc_weight) == (512, 0.02, 0.5)
