"""Uncertainties that ask the logs themselves, without a model: how like them is an episode?

They read the transitions that an agent remembers (`idaq.algos.logs`), and compare an episode with
the logs of its hypothesis's own training task: the one whose embedding is nearest.
docs/search.md says how they compare with the return.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from idaq.adapt.uncertainty import Uncertainty, View
from idaq.algos.entries import LOGS
from idaq.algos.logs import Comparison, Logs
from idaq.types import Episodes, Hypothesis, Scalar


def relative_return(episodes: Episodes, hypothesis: Hypothesis, view: View) -> Scalar:
    """What is missing to the return that the hypothesis's own logs have."""
    return _logs(view).returns[view.task_of(hypothesis)] - episodes.returns.mean()


def distance_to_logs(episodes: Episodes, hypothesis: Hypothesis, view: View) -> Scalar:
    """The share of the steps at places that are not in the logs."""
    return _mean_over_steps(episodes, hypothesis, view, lambda seen: 1.0 - seen.closeness)


def unlikeness(episodes: Episodes, hypothesis: Hypothesis, view: View) -> Scalar:
    """The share of the steps that are not in the logs, or had another outcome there."""
    return _mean_over_steps(
        episodes, hypothesis, view, lambda seen: 1.0 - seen.closeness * (1.0 - seen.error)
    )


def return_and_unlikeness(episodes: Episodes, hypothesis: Hypothesis, view: View) -> Scalar:
    """Unlikeness minus the return, which is in units of what logs return on average."""
    unit = jnp.maximum(jnp.abs(view.logged_return), 1e-6)
    return unlikeness(episodes, hypothesis, view) - episodes.returns.mean() / unit


def _mean_over_steps(
    episodes: Episodes,
    hypothesis: Hypothesis,
    view: View,
    value: Callable[[Comparison], jax.Array],
) -> Scalar:
    assert view.compare is not None, "a method that reads the logs is refused where there are none"
    compare = view.compare

    def one(episode: Episodes) -> Scalar:
        seen = compare(episode, hypothesis)
        is_step = seen.is_step
        return (value(seen)[:, 0] * is_step).sum() / jnp.maximum(is_step.sum(), 1)

    return jax.vmap(one)(episodes).mean()


def _logs(view: View) -> Logs:
    assert view.logs is not None, "a method that reads the logs is refused where there are none"
    return view.logs


def _of_logged(logged_return: Scalar) -> Scalar:
    """Of `return_and_unlikeness`: logged episodes are like themselves, and return the unit."""
    return -jnp.sign(logged_return)


ENTRIES = (
    Uncertainty(
        name="relative-return",
        label="return relative to its logs",
        quantify=relative_return,
        reads=LOGS,
        version=1,
    ),
    Uncertainty(
        name="distance-to-logs",
        label="distance to the logs",
        quantify=distance_to_logs,
        reads=LOGS,
        version=1,
    ),
    Uncertainty(
        name="unlikeness",
        label="unlikeness to the logs",
        quantify=unlikeness,
        reads=LOGS,
        version=1,
    ),
    Uncertainty(
        name="return-and-unlikeness",
        label="return and unlikeness",
        quantify=return_and_unlikeness,
        reads=LOGS,
        of_logs=_of_logged,
        version=1,
    ),
)
