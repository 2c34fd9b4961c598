"""How in-distribution is an episode? The three quantifications of Section 4.2, and yours.

An uncertainty takes the n_e episodes that one hypothesis ran, the hypothesis, and `predict`, the
ensemble's view of an episode, and gives one number: lower is more in-distribution. Register your
own as an entry point in the group `idaq.uncertainties`, pointing at an `Uncertainty`; it is then
the method `idaq-NAME`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import jax
import jax.numpy as jnp

from idaq.algos.base import Prediction
from idaq.errors import IdaqError
from idaq.types import Array, Episodes, PyTree

Predict = Callable[[Episodes, PyTree], Prediction]
ENTRY_POINT_GROUP = "idaq.uncertainties"


@dataclass(frozen=True)
class Uncertainty:
    """A quantification, whether it needs the reward and dynamics models, and what logs have.

    `of_logs` takes the mean return of the training tasks' logged episodes and gives the uncertainty
    that such an episode has under its own task's hypothesis: 0 for an error.
    """

    quantify: Callable[[Episodes, PyTree, Predict], Any]
    needs_models: bool
    of_logs: Callable[[Any], Any] = jnp.zeros_like


def episode_return(episodes: Episodes, hypothesis: PyTree, predict: Predict) -> Any:
    """Q_RE: minus the mean return of the hypothesis's episodes."""
    return -episodes.returns.mean()


def prediction_error(episodes: Episodes, hypothesis: PyTree, predict: Predict) -> Any:
    """Q_PE: mean over steps and models of |r - r_i| + ||s' - p_i||."""

    def one(episode: Episodes) -> Any:
        seen = predict(episode, hypothesis)
        reward_error = jnp.abs(seen.reward - seen.rewards)  # [L, horizon]
        state_error = jnp.linalg.norm(seen.next_obs - seen.next_observations, axis=-1)
        return _mean_over_steps((reward_error + state_error).mean(axis=0), seen.valid)

    return jax.vmap(one)(episodes).mean()


def prediction_variance(episodes: Episodes, hypothesis: PyTree, predict: Predict) -> Any:
    """Q_PV: mean over steps of the largest |r_i - r_j| + ||p_i - p_j|| over pairs of models."""

    def one(episode: Episodes) -> Any:
        seen = predict(episode, hypothesis)
        reward_gap = jnp.abs(seen.rewards[:, None] - seen.rewards[None])  # [L, L, horizon]
        state_gap = seen.next_observations[:, None] - seen.next_observations[None]
        gap = reward_gap + jnp.linalg.norm(state_gap, axis=-1)
        return _mean_over_steps(gap.max(axis=(0, 1)), seen.valid)

    return jax.vmap(one)(episodes).mean()


def _mean_over_steps(values: Array, valid: Array) -> Any:
    return (values * valid).sum() / jnp.maximum(valid.sum(), 1)


BUILT_IN = {
    "return": Uncertainty(episode_return, needs_models=False, of_logs=jnp.negative),
    "prediction-error": Uncertainty(prediction_error, needs_models=True),
    "prediction-variance": Uncertainty(prediction_variance, needs_models=True),
}


@cache
def uncertainties() -> dict[str, Uncertainty]:
    """All quantifications by name, the installed ones of others included."""
    found = dict(BUILT_IN)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        value = entry.load()
        if entry.name in BUILT_IN or not isinstance(value, Uncertainty):
            raise IdaqError(
                f"The entry point '{entry.name}' ({entry.value}) is no new Uncertainty.",
                f"Point it at an idaq Uncertainty under a name other than {', '.join(BUILT_IN)}.",
            )
        found[entry.name] = value
    return found
