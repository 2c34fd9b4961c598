"""IDAQ, Algorithm 1: a reference stage, a threshold, an iterative stage, a final policy.

The reference stage runs n_r episodes with hypotheses of the prior and sets the threshold to the
bottom k% quantile of their uncertainties, always an observed value (`inverted_cdf`). Episodes at
or below it are the in-distribution context. Each iterative episode runs q(z | that context) and
joins it if it passes. The final episode runs the committed hypothesis.

Choices beyond the paper's text, all options of `AdaptConfig`:
1. `reference`: which hypotheses of the prior are tried.
2. `iterate="untried"`: q(z | c) of a deterministic encoder proposes the same hypothesis until
   the context changes; instead of running it again, the iterative stage then tries the training
   task's hypothesis nearest to the best one so far that has not been tried. `iterate="search"`
   does so once an episode resembles the logs, that is, when the best uncertainty is closer to a
   logged episode's than to the mean of what was tried. Until then the neighbourhood of the best
   one is no better than any other, and the hypothesis farthest from all that were tried is next.
   Embeddings of tasks that are alike lie close together, and of those one is enough.
3. `accept="improvement"`: only an episode that is better than all before joins, which is what
   the released code does with returns; the threshold then follows the best episode.
4. `final="best"`: the final policy replays the hypothesis of the lowest uncertainty.
If all reference uncertainties tie, all are kept and the record says `tied`.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from idaq.adapt.config import AdaptConfig
from idaq.adapt.thompson import Memory, empty_memory, reference_hypotheses, remember
from idaq.adapt.uncertainty import Uncertainty
from idaq.algos.base import Algorithm
from idaq.types import Array, Episodes, PyTree

SAME_HYPOTHESIS = 1e-6  # hypotheses closer than this are one
ALIKE = 0.1  # to `search`, those closer than this share of the prior's median distance are one


class IdaqState(NamedTuple):
    """Per-episode values are those of the episode's hypothesis."""

    reference: Any  # [num_reference_hypotheses, latent_dim]
    memory: Memory
    uncertainty: Any  # [num_episodes], NaN where there is none yet
    kept: Any  # [num_episodes] bool
    threshold: Any  # [], NaN before the reference stage ends
    tied: Any  # [] bool


def quantile_threshold(uncertainty: Array, keep_percent: float) -> Any:
    """The `inverted_cdf` quantile: the smallest value that at least k% of them do not exceed."""
    num = uncertainty.shape[0]
    rank = max(1, math.ceil(keep_percent * num / 100.0 - 1e-9))
    return jnp.sort(uncertainty)[rank - 1]


@dataclass(frozen=True)
class Idaq:
    """The two-stage framework around any uncertainty."""

    config: AdaptConfig
    algorithm: Algorithm
    uncertainty: Uncertainty
    version: int = 1

    @property
    def num_episodes(self) -> int:
        return self.config.num_episodes

    def init(self, agent: PyTree, key: Array, given: Episodes | None) -> IdaqState:
        reference = reference_hypotheses(self.config, self.algorithm.prior(agent), key)
        return IdaqState(
            reference=reference,
            memory=empty_memory(self.algorithm.spec, self.num_episodes, reference[0]),
            uncertainty=jnp.full(self.num_episodes, jnp.nan),
            kept=jnp.zeros(self.num_episodes, bool),
            threshold=jnp.full((), jnp.nan),
            tied=jnp.zeros((), bool),
        )

    def propose(self, agent: PyTree, state: IdaqState) -> Any:
        """A reference hypothesis, q(z | in-distribution context), or the one being repeated."""
        count, repeats = state.memory.count, self.config.episodes_per_hypothesis
        reference = state.reference[count // repeats]
        in_reference = count < self.config.num_reference_episodes
        hypothesis = jnp.where(in_reference, reference, self._next_iterate(agent, state))
        is_repeat = self._place_in_group(count) > 0
        return jnp.where(is_repeat, state.memory.hypotheses[count - 1], hypothesis)

    def observe(
        self, agent: PyTree, state: IdaqState, hypothesis: PyTree, episode: Episodes
    ) -> IdaqState:
        """Remember the episode; when its hypothesis has run n_e episodes, judge them."""
        index = state.memory.count
        state = state._replace(memory=remember(state.memory, hypothesis, episode))
        is_final = index == self.num_episodes - 1
        complete = self._place_in_group(index) == self.config.episodes_per_hypothesis - 1
        judged = jax.lax.cond(complete, partial(self._judge, agent), lambda s: s, state)
        final_uncertainty = self._quantify(
            agent, jax.tree.map(lambda x: x[None], episode), hypothesis
        )
        final = state._replace(uncertainty=state.uncertainty.at[index].set(final_uncertainty))
        result: IdaqState = jax.tree.map(lambda a, b: jnp.where(is_final, a, b), final, judged)
        return result

    def commit(self, agent: PyTree, state: IdaqState) -> Any:
        if self.config.final == "posterior":
            return self._posterior(agent, state)
        return state.memory.hypotheses[jnp.nanargmin(state.uncertainty)]

    def record(self, state: IdaqState) -> dict[str, Any]:
        return {
            "uncertainty": state.uncertainty,
            "kept": state.kept,
            "threshold": state.threshold,
            "tied": state.tied,
        }

    def _place_in_group(self, index: Array) -> Any:
        """Which of its hypothesis's n_e episodes an episode is; both stages start at 0."""
        start = jnp.where(
            index < self.config.num_reference_episodes, 0, self.config.num_reference_episodes
        )
        return (index - start) % self.config.episodes_per_hypothesis

    def _posterior(self, agent: PyTree, state: IdaqState) -> Any:
        return self.algorithm.encode(agent, state.memory.episodes, state.kept)

    def _next_iterate(self, agent: PyTree, state: IdaqState) -> Any:
        """The hypothesis of the next iterative episode."""
        posterior = self._posterior(agent, state)
        if self.config.iterate == "posterior":
            return posterior
        prior = self.algorithm.prior(agent)
        candidates = jnp.concatenate([posterior[None], prior])
        tried = jnp.arange(self.num_episodes) < state.memory.count
        distance = jnp.linalg.norm(candidates[:, None] - state.memory.hypotheses, axis=-1)
        from_tried = jnp.where(tried, distance, jnp.inf).min(axis=1)
        is_new = from_tried > self._tolerance(prior)
        best = state.memory.hypotheses[jnp.nanargmin(state.uncertainty)]
        from_best = jnp.where(is_new[1:], jnp.linalg.norm(prior - best, axis=-1), jnp.inf)
        use_prior = ~is_new[0] & is_new[1:].any()
        refined = jnp.where(use_prior, prior[jnp.argmin(from_best)], posterior)
        if self.config.iterate == "untried":
            return refined
        explore = ~self._resembles_logs(agent, state) & is_new[1:].any()
        return jnp.where(explore, prior[jnp.argmax(from_tried[1:])], refined)

    def _tolerance(self, prior: Array) -> Any:
        """How close to one that was tried a hypothesis is nothing new."""
        if self.config.iterate == "untried":
            return SAME_HYPOTHESIS
        pairs = jnp.linalg.norm(prior[:, None] - prior, axis=-1)
        first, second = jnp.triu_indices(prior.shape[0], 1)
        return ALIKE * jnp.median(pairs[first, second])

    def _resembles_logs(self, agent: PyTree, state: IdaqState) -> Any:
        """Whether the best episode is closer to a logged one than to the mean of those tried."""
        logs = self.uncertainty.of_logs(self.algorithm.logged_return(agent))
        halfway = 0.5 * (logs + jnp.nanmean(state.uncertainty))
        return jnp.nanmin(state.uncertainty) <= halfway

    def _quantify(self, agent: PyTree, episodes: Episodes, hypothesis: PyTree) -> Any:
        predict = partial(self.algorithm.predict, agent)
        return self.uncertainty.quantify(episodes, hypothesis, predict)

    def _judge(self, agent: PyTree, state: IdaqState) -> IdaqState:
        """The uncertainty of the last n_e episodes, and whether they are in-distribution."""
        repeats, num_reference = (
            self.config.episodes_per_hypothesis,
            self.config.num_reference_episodes,
        )
        first = state.memory.count - repeats
        group = jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, first, repeats), state.memory.episodes
        )
        value = self._quantify(agent, group, state.memory.hypotheses[first])
        places = jnp.arange(self.num_episodes)
        in_group = (places >= first) & (places < state.memory.count)
        best_before = jnp.nanmin(jnp.where(in_group, jnp.nan, state.uncertainty), initial=jnp.inf)
        uncertainty = jnp.where(in_group, value, state.uncertainty)

        # --- The reference stage ends: set the threshold ---
        reference = uncertainty[:num_reference:repeats]
        threshold = quantile_threshold(reference, self.config.keep_percent)
        reference_ends = state.memory.count == num_reference
        kept_reference = (uncertainty <= threshold) & (places < num_reference)
        tied = (reference == reference[0]).all() & (reference.shape[0] > 1)

        # --- The iterative stage: accept or reject ---
        iterating = state.memory.count > num_reference
        if self.config.accept == "threshold":
            accepted, tightened = value <= state.threshold, state.threshold
        else:
            accepted = value < best_before
            tightened = jnp.minimum(state.threshold, value)
        kept_iterative = state.kept | (in_group & accepted & iterating)

        return state._replace(
            uncertainty=uncertainty,
            kept=jnp.where(reference_ends, kept_reference, kept_iterative),
            threshold=jnp.where(reference_ends, threshold, tightened),
            tied=jnp.where(reference_ends, tied, state.tied),
        )
