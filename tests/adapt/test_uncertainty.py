"""The three quantifications against loops, and the registry of others."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.adapt import uncertainty
from idaq.adapt.methods import METHODS
from idaq.judges.ensemble import Prediction
from idaq.types import Episodes
from tests import oracles, tiny

GAINS = np.array([0.5, -1.0, 0.8])  # of three models
HYPOTHESIS = jnp.asarray([0.4, -0.7, 0.2])
QUANTIFICATIONS: dict[str, tuple[Any, Any]] = {
    "return": (uncertainty.episode_return, oracles.return_uncertainty),
    "prediction-error": (uncertainty.prediction_error, oracles.prediction_error),
    "prediction-variance": (uncertainty.prediction_variance, oracles.prediction_variance),
}


def predict(episode: Episodes, hypothesis: Any) -> Prediction:
    """Three models that are wrong in their own way, hypothesis included."""
    gains = jnp.asarray(GAINS, jnp.float32)
    states = episode.obs + gains[:, None, None] * (episode.next_obs + hypothesis)
    return Prediction(
        reward=episode.reward,
        next_obs=episode.next_obs,
        rewards=gains[:, None] * episode.obs[:, 0] + hypothesis[0],
        next_observations=states,
        valid=episode.valid,
    )


def view(read: Any) -> uncertainty.View:
    return uncertainty.View(read=read, prior=jnp.zeros((1, 3)), logged_return=jnp.zeros(()))


VIEW = view(predict)


def seen(episodes: Episodes) -> list[oracles.Seen]:
    """The same predictions, by NumPy."""
    result, z = [], np.asarray(HYPOTHESIS, np.float64)
    for i in range(len(episodes.reward)):
        obs, next_obs = (np.asarray(x[i], np.float64) for x in (episodes.obs, episodes.next_obs))
        result.append(
            oracles.Seen(
                reward=np.asarray(episodes.reward[i], np.float64),
                next_obs=next_obs,
                rewards=np.stack([gain * obs[:, 0] + z[0] for gain in GAINS]),
                next_observations=np.stack([obs + gain * (next_obs + z) for gain in GAINS]),
                length=int(np.asarray(episodes.valid[i]).sum()),
            )
        )
    return result


@pytest.mark.parametrize("name", QUANTIFICATIONS)
@pytest.mark.parametrize("num_episodes", [1, 3])
@given(seed=st.integers(0, 1000))
def test_quantification(name: str, num_episodes: int, seed: int) -> None:
    episodes = tiny.episodes(num_episodes, seed)
    quantify, oracle = QUANTIFICATIONS[name]
    assert oracles.agree(quantify(episodes, HYPOTHESIS, VIEW), oracle(seen(episodes)))


@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("return", {"sign": 1.0}),
        ("return", {"sign": -1.001}),
        ("prediction-error", {"reward_weight": 1.001}),
        ("prediction-error", {"state_weight": 0.999}),
        ("prediction-variance", {"reward_weight": 1.001}),
        ("prediction-variance", {"state_weight": 0.999}),
    ],
)
def test_quantification_fails_under_a_mutated_constant(
    name: str, constants: dict[str, float]
) -> None:
    episodes = tiny.episodes(3, 1)
    quantify, oracle = QUANTIFICATIONS[name]
    actual = quantify(episodes, HYPOTHESIS, VIEW)
    assert not oracles.agree(actual, oracle(seen(episodes), **constants))


@pytest.mark.parametrize("name", QUANTIFICATIONS)
def test_padding_counts_for_nothing(name: str) -> None:
    episodes = tiny.episodes(3, 1)
    padding = ~episodes.valid
    assert padding.any()
    spoiled = episodes._replace(
        obs=jnp.where(padding[..., None], 1e3, episodes.obs),
        reward=jnp.where(padding, -1e3, episodes.reward),
        next_obs=jnp.where(padding[..., None], 1e3, episodes.next_obs),
    )
    quantify, _ = QUANTIFICATIONS[name]
    clean, dirty = (quantify(x, HYPOTHESIS, VIEW) for x in (episodes, spoiled))
    assert float(clean) == pytest.approx(float(dirty), rel=1e-6)


def test_return_needs_no_models() -> None:
    def refuse(episode: Episodes, hypothesis: Any) -> Prediction:
        raise AssertionError("models were asked")

    value = uncertainty.episode_return(tiny.episodes(2), HYPOTHESIS, view(refuse))
    assert np.isfinite(value)
    reads = {name: each.reads for name, each in uncertainty.UNCERTAINTIES.items()}
    assert reads == {
        "return": None,
        "prediction-error": "ensemble",
        "prediction-variance": "ensemble",
        "relative-return": "logs",
        "distance-to-logs": "logs",
        "unlikeness": "logs",
        "return-and-unlikeness": "logs",
    }


def test_equal_models_have_error_but_no_variance() -> None:
    """The paper's example of what prediction variance cannot see (Section 4.2)."""

    def agreeing(episode: Episodes, hypothesis: Any) -> Prediction:
        one = predict(episode, hypothesis)
        return one._replace(
            rewards=jnp.ones_like(one.rewards),
            next_observations=jnp.zeros_like(one.next_observations),
        )

    episodes = tiny.episodes(2)
    assert uncertainty.prediction_variance(episodes, HYPOTHESIS, view(agreeing)) == 0.0
    assert uncertainty.prediction_error(episodes, HYPOTHESIS, view(agreeing)) > 0.0


def length(episodes: Episodes, hypothesis: Any, view: uncertainty.View) -> Any:
    return jax.vmap(jnp.sum)(episodes.valid).mean()


LENGTH = uncertainty.Uncertainty(name="length", label="length", quantify=length)


def test_a_users_own_is_a_method_by_its_name() -> None:
    with uncertainty.UNCERTAINTIES.registered(LENGTH):
        assert uncertainty.UNCERTAINTIES["length"] is LENGTH
        assert "idaq-length" in METHODS
        assert METHODS["idaq-length"].label == "IDAQ, length"
    assert "idaq-length" not in METHODS
