"""The search `bayesian`: a Gaussian process over hypotheses, led by what the logs promise.

What is maximised is y = minus the uncertainty. For a new task, y is modelled as a Gaussian process
over the embeddings,

    y(z) ~ GP( m - s c(z), s^2 k(|z - z'| / d) ),    k(x) = (exp(-(x / 0.6)^2 / 2) + exp(-x)) / 2

with d the median distance between training tasks. The next hypothesis is the one with the largest
upper bound, mean plus one standard deviation; the first, before anything is known, is the training
task in the middle of all.

- *Level and scale come from the logs.* m is the mean of what was tried. s is the gap between m and
  what a logged episode has, or the deviation of what was tried if that is larger. So a hypothesis
  unlike all tried ones is believed to be worth up to what the logs returned. If s were the
  deviation alone, the differences between failures would be taken for signal, and the search would
  stay among them.
- *Candidates* are the training tasks' embeddings, the points halfway to their nearest neighbours,
  and the posterior of what was kept: a new task lies between training tasks.
- *The logs contradict.* c(z) is a tenth of the number of steps that speak against the training
  tasks around z (`idaq.algos.logs`): where an episode was in states that a task's logs know, and
  its rewards were others, it need not be tried. If the agent remembers no logs, c is zero.

Half of k is smooth, as returns are where tasks differ little by little, and half is rough, as they
are where a hypothesis works or does not. docs/search.md says how the constants were chosen, and
that other ones do about as well.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from idaq.adapt.search import (
    SAME_HYPOTHESIS,
    SearchEntry,
    Tried,
    distances,
    farthest_first,
    median_of_pairs,
)
from idaq.algos.entries import EMBEDDING
from idaq.types import Hypotheses, Hypothesis, Mask, Scalar, Vector

SMOOTH_LENGTH = 0.6  # of the median distance between training tasks
NOISE = 0.01  # of y, in units of s squared
WEIGHT_PER_STEP = 0.1  # of a step that contradicts, in units of s
NEIGHBOURS = 4  # of each training task, halfway to which there is a candidate
SURROUNDINGS = 0.1  # of the median distance: whose contradictions count for a hypothesis


class Belief(NamedTuple):
    """What is believed of every candidate."""

    candidates: Hypotheses  # [num_candidates, latent_dim]
    is_new: Mask  # [num_candidates]
    mean: Vector  # [num_candidates], of y
    deviation: Vector  # [num_candidates]
    scale: Scalar  # [], s
    best: Scalar  # [], the largest y so far


def choose(tried: Tried) -> Hypothesis:
    """The candidate with the largest upper bound; the best so far if there is nothing new."""
    belief = believe(tried)
    upper = jnp.where(belief.is_new, belief.mean + belief.deviation, -jnp.inf)
    chosen = jnp.where(belief.is_new.any(), belief.candidates[jnp.argmax(upper)], tried.best)
    middle = tried.prior[jnp.argmin(distances(tried.prior, tried.prior).mean(axis=1))]
    return jnp.where(_is_judged(tried).any(), chosen, middle)


def expected_gain(tried: Tried) -> Scalar:
    """The largest expected improvement on the best so far, in units of s."""
    belief = believe(tried)
    above = (belief.mean - belief.best) / belief.deviation
    normal = jax.scipy.stats.norm
    gain = belief.deviation * (above * normal.cdf(above) + normal.pdf(above)) / belief.scale
    return jnp.where(
        _is_judged(tried).any(), jnp.max(gain, where=belief.is_new, initial=0), jnp.inf
    )


def believe(tried: Tried) -> Belief:
    """Condition the process on what was tried; NaN where nothing was judged yet."""
    # --- Level and scale ---
    judged = _is_judged(tried)
    num = judged.sum()
    y = -jnp.where(judged, tried.uncertainty, 0.0)
    level = y.sum() / num
    spread = jnp.sqrt((jnp.where(judged, y - level, 0.0) ** 2).sum() / num)
    scale = jnp.maximum(jnp.maximum(spread, -tried.logged_uncertainty - level), 1e-6)

    # --- Candidates ---
    distance = distances(tried.prior, tried.prior)
    unit = jnp.maximum(median_of_pairs(distance), 1e-9)
    candidates = jnp.concatenate(
        [tried.prior, _halfway(tried.prior, distance), tried.posterior[None]]
    )
    to_tried = distances(candidates, tried.hypotheses)
    is_new = jnp.where(tried.was_tried, to_tried, jnp.inf).min(axis=1) > SAME_HYPOTHESIS

    # --- Prior mean, in units of the scale ---
    against = WEIGHT_PER_STEP * tried.contradiction

    def prior_mean(hypotheses: Hypotheses) -> Vector:
        from_tasks = distances(hypotheses, tried.prior) / unit
        return -jax.nn.softmax(-0.5 * (from_tasks / SURROUNDINGS) ** 2) @ against

    # --- Condition on what was judged ---
    pairs = judged[:, None] & judged
    between = distances(tried.hypotheses, tried.hypotheses)
    covariance = jnp.where(pairs, _kernel(between / unit), 0.0)
    covariance += jnp.diag(jnp.where(judged, NOISE, 1.0))
    with_tried = jnp.where(judged, _kernel(to_tried / unit), 0.0)  # [candidates, episodes]
    weights = jax.scipy.linalg.solve(covariance, with_tried.T, assume_a="pos").T
    residual = jnp.where(judged, (y - level) / scale - prior_mean(tried.hypotheses), 0.0)
    mean = prior_mean(candidates) + weights @ residual
    variance = jnp.maximum(1.0 - (weights * with_tried).sum(axis=1), 1e-6)
    return Belief(
        candidates=candidates,
        is_new=is_new,
        mean=level + scale * mean,
        deviation=scale * jnp.sqrt(variance),
        scale=scale,
        best=jnp.max(y, where=judged, initial=-jnp.inf),
    )


def _is_judged(tried: Tried) -> Mask:
    return tried.was_tried & ~jnp.isnan(tried.uncertainty)


def _kernel(x: jax.Array) -> jax.Array:
    return 0.5 * (jnp.exp(-0.5 * (x / SMOOTH_LENGTH) ** 2) + jnp.exp(-x))


def _halfway(prior: Hypotheses, distance: jax.Array) -> Hypotheses:
    """Between every training task and its nearest neighbours, [num_tasks * NEIGHBOURS, ...]."""
    num = min(NEIGHBOURS, len(prior) - 1)
    others = distance + jnp.diag(jnp.full(len(prior), jnp.inf))
    nearest = jax.lax.top_k(-others, num)[1]  # [num_tasks, num]
    return (0.5 * (prior[:, None] + prior[nearest])).reshape(-1, *prior.shape[1:])


ENTRY = SearchEntry(
    name="bayesian",
    label="Bayesian",
    version=1,
    first=farthest_first,  # for methods that judge nothing
    next=choose,
    gain=expected_gain,
    reads_logs=True,
    needs=frozenset({EMBEDDING}),  # distances between whole networks would say little and cost much
)
