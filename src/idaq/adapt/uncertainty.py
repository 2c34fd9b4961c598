"""How in-distribution is an episode? The three quantifications of Section 4.2, and yours.

An uncertainty takes the n_e episodes that one hypothesis ran, the hypothesis, and a `View` of what
the agent knows from its training, and gives one number: lower is more in-distribution. One that
`reads` a judge asks it through `view.read`; one that reads the logs that the agent remembers asks
`view.compare` (`idaq.adapt.likeness`). Register an `Uncertainty` of your own, or declare it as
an entry point in the group `idaq.uncertainties`; it is then the method `idaq-NAME`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from idaq.algos.base import Algorithm
from idaq.algos.entries import logs_of
from idaq.algos.logs import Comparison, Logs, compare
from idaq.registry import Registry
from idaq.types import Array, Episodes, Hypotheses, Hypothesis, Places, PyTree, Scalar


class View(NamedTuple):
    """What an uncertainty may ask of the agent."""

    read: Callable[[Episodes, Hypothesis], PyTree]
    """(episode [horizon, ...], hypothesis): what the judge says of it."""
    prior: Hypotheses  # [num_train_tasks, latent_dim]
    logged_return: Scalar  # [], mean of the training tasks' logged episodes
    logs: Logs | None = None  # what the agent remembers of them
    compare: Callable[[Episodes, Hypothesis], Comparison] | None = None
    """(episode [horizon, ...], hypothesis): what the remembered logs of its task say of it."""

    def task_of(self, hypothesis: Hypothesis) -> Places:
        """The training task whose embedding is nearest."""
        return jnp.argmin(jnp.linalg.norm(self.prior - hypothesis, axis=-1))


def no_error(logged_return: Scalar) -> Scalar:
    """The uncertainty of logged episodes by a measure of errors: none."""
    return jnp.zeros_like(logged_return)


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """A quantification, the judge that it reads, and its value for logged episodes.

    `of_logs` takes the mean return of the training tasks' logged episodes and gives the uncertainty
    that such an episode has under its own task's hypothesis; 0, the default, suits errors.
    """

    name: str
    label: str
    quantify: Callable[[Episodes, Hypothesis, View], Scalar]
    reads: str | None = None
    """The name of the judge that it reads, if any, or `LOGS`."""
    of_logs: Callable[[Scalar], Scalar] = no_error
    version: int | None = None
    """Raised whenever results change; without one, it is identified by its source."""


def view_of(algorithm: Algorithm, agent: PyTree) -> View:
    """What an agent lets uncertainties see."""
    logs = logs_of(algorithm, agent)
    view = View(
        read=partial(algorithm.read, agent),
        prior=algorithm.prior(agent),
        logged_return=algorithm.logged_return(agent),
        logs=logs,
    )
    if logs is None:
        return view

    def compare_with_own(episode: Episodes, hypothesis: Hypothesis) -> Comparison:
        return compare(logs, algorithm.spec, episode, view.task_of(hypothesis))

    return view._replace(compare=compare_with_own)


def episode_return(episodes: Episodes, hypothesis: Hypothesis, view: View) -> Scalar:
    """Q_RE: minus the mean return of the hypothesis's episodes."""
    return -episodes.returns.mean()


def prediction_error(episodes: Episodes, hypothesis: Hypothesis, view: View) -> Scalar:
    """Q_PE: mean over steps and models of |r - r_i| + ||s' - p_i||."""

    def one(episode: Episodes) -> Scalar:
        seen = view.read(episode, hypothesis)
        reward_error = jnp.abs(seen.reward - seen.rewards)  # [L, horizon]
        state_error = jnp.linalg.norm(seen.next_obs - seen.next_observations, axis=-1)
        return _mean_over_steps((reward_error + state_error).mean(axis=0), seen.valid)

    return jax.vmap(one)(episodes).mean()


def prediction_variance(episodes: Episodes, hypothesis: Hypothesis, view: View) -> Scalar:
    """Q_PV: mean over steps of the largest |r_i - r_j| + ||p_i - p_j|| over pairs of models."""

    def one(episode: Episodes) -> Scalar:
        seen = view.read(episode, hypothesis)
        reward_gap = jnp.abs(seen.rewards[:, None] - seen.rewards[None])  # [L, L, horizon]
        state_gap = seen.next_observations[:, None] - seen.next_observations[None]
        gap = reward_gap + jnp.linalg.norm(state_gap, axis=-1)
        return _mean_over_steps(gap.max(axis=(0, 1)), seen.valid)

    return jax.vmap(one)(episodes).mean()


def _mean_over_steps(values: jax.Array, valid: Array) -> Scalar:
    return (values * valid).sum() / jnp.maximum(valid.sum(), 1)


ENTRIES = (
    Uncertainty(
        name="return", label="return", quantify=episode_return, of_logs=jnp.negative, version=1
    ),
    Uncertainty(
        name="prediction-error",
        label="prediction error",
        quantify=prediction_error,
        reads="ensemble",
        version=1,
    ),
    Uncertainty(
        name="prediction-variance",
        label="prediction variance",
        quantify=prediction_variance,
        reads="ensemble",
        version=1,
    ),
)

UNCERTAINTIES: Registry[Uncertainty] = Registry(
    "uncertainty",
    "uncertainties",
    lambda entry: isinstance(entry, Uncertainty),
    built_in=("idaq.adapt.uncertainty:ENTRIES", "idaq.adapt.likeness:ENTRIES"),
    feeds="adaptation method",
)
