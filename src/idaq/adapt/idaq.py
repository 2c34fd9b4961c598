"""IDAQ, Algorithm 1: a reference stage, a threshold, an iterative stage, a final policy.

The reference stage runs n_r episodes with hypotheses from the prior and sets the threshold to the
bottom k% quantile of their uncertainties, always an observed value (`inverted_cdf`). Episodes at
or below the threshold are the in-distribution context. Each iterative episode runs
q(z | that context) and joins the context if it passes. The final episode runs the committed
hypothesis.

Choices beyond the paper's text, all options of `AdaptConfig`:
1. `reference` and `iterate`: the searches that choose hypotheses (`idaq.adapt.search`). With a
   deterministic encoder, the posterior proposes the same one until the context changes.
2. `accept="improvement"`: only an episode better than all before it joins, as in the released
   code with returns; the threshold then follows the best episode.
3. `final="best"`: the final policy replays the hypothesis with the lowest uncertainty.
4. `stop_below`: once the search expects too little of the next try, the final policy runs instead,
   and `num_used` says how many episodes that took, the first of the final policy included.
If all reference uncertainties tie, all reference episodes are kept and the record says `tied`.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from idaq.adapt.base import Record
from idaq.adapt.memory import Memory, empty_memory, remember
from idaq.adapt.search import Searches, Tried
from idaq.adapt.uncertainty import Uncertainty, view_of
from idaq.algos.base import Algorithm
from idaq.algos.entries import logs_of
from idaq.algos.logs import contradiction
from idaq.settings import AdaptConfig
from idaq.types import Episodes, Hypotheses, Hypothesis, Key, Mask, PyTree, Scalar, Vector


class IdaqState(NamedTuple):
    """The n_e episodes of a hypothesis share their per-episode values."""

    reference: Hypotheses  # [num_reference_hypotheses, latent_dim]
    memory: Memory
    uncertainty: Vector  # [num_episodes], NaN where there is none yet
    kept: Mask  # [num_episodes]
    threshold: Scalar  # [], NaN before the reference stage ends
    thresholds: Vector  # [num_episodes], what each episode was judged by; NaN until then
    tied: Scalar  # [] bool
    contradiction: Vector  # [num_train_tasks], of all episodes so far; zero if no search reads it
    num_used: Scalar  # [], episodes that the budget would have been enough with; see `stop_below`


def quantile_threshold(uncertainty: Vector, keep_percent: float) -> Scalar:
    """The `inverted_cdf` quantile: the smallest value that at least k% of them do not exceed."""
    num = uncertainty.shape[0]
    return jnp.sort(uncertainty)[_rank(num, keep_percent) - 1]


def _rank(num: int, keep_percent: float) -> int:
    """Which of `num` values in ascending order that quantile is, counted from 1."""
    return max(1, math.ceil(keep_percent * num / 100.0 - 1e-9))


@dataclass(frozen=True)
class Idaq:
    """The two-stage framework around any uncertainty."""

    config: AdaptConfig
    algorithm: Algorithm
    uncertainty: Uncertainty
    searches: Searches
    version: int = 1

    @property
    def num_episodes(self) -> int:
        return self.config.num_episodes

    def init(self, agent: PyTree, key: Key, given: Episodes | None) -> IdaqState:
        prior = self.algorithm.prior(agent)
        reference = self.searches.first(self.config, prior, key)
        return IdaqState(
            reference=reference,
            memory=empty_memory(self.algorithm.spec, self.num_episodes, reference[0]),
            uncertainty=jnp.full(self.num_episodes, jnp.nan),
            kept=jnp.zeros(self.num_episodes, bool),
            threshold=jnp.full((), jnp.nan),
            thresholds=jnp.full(self.num_episodes, jnp.nan),
            tied=jnp.zeros((), bool),
            contradiction=jnp.zeros(prior.shape[0]),
            num_used=jnp.asarray(self.num_episodes),
        )

    def propose(self, agent: PyTree, state: IdaqState) -> Hypothesis:
        """The next hypothesis, or the final policy's if the search has stopped."""
        hypothesis = self._next(agent, state)
        if self.config.stop_below > 0:
            has_stopped = state.memory.count >= state.num_used - 1
            hypothesis = jnp.where(has_stopped, self.commit(agent, state), hypothesis)
        return hypothesis

    def _next(self, agent: PyTree, state: IdaqState) -> Hypothesis:
        """A reference hypothesis, the next iterative one, or the one being repeated."""
        count, repeats = state.memory.count, self.config.episodes_per_hypothesis
        tried = self._tried(agent, state)
        reference = state.reference[count // repeats]
        if self.searches.adapts_reference:
            reference = self.searches.next(tried, in_reference=True)
        in_reference = count < self.config.num_reference_episodes
        hypothesis = jnp.where(in_reference, reference, self.searches.next(tried))
        is_repeat = self._place_in_group(count) > 0
        return jnp.where(is_repeat, state.memory.hypotheses[count - 1], hypothesis)

    def observe(
        self, agent: PyTree, state: IdaqState, hypothesis: Hypothesis, episode: Episodes
    ) -> IdaqState:
        """Remember the episode; when its hypothesis has run n_e episodes, judge them.

        The final episode is not judged, but its uncertainty and the threshold are written down.
        """
        index, repeats = state.memory.count, self.config.episodes_per_hypothesis
        is_final = index == self.num_episodes - 1
        state = state._replace(
            memory=remember(state.memory, hypothesis, episode),
            contradiction=state.contradiction + self._contradiction(agent, episode),
        )
        value = self._quantify(agent, state, episode, hypothesis, is_final)
        complete = self._place_in_group(index) == repeats - 1
        judged = jax.lax.cond(complete, self._judge, lambda s, _: s, state, value)
        final = state._replace(
            uncertainty=state.uncertainty.at[index].set(value),
            thresholds=state.thresholds.at[index].set(self._limit(state)),
        )
        result: IdaqState = jax.tree.map(lambda a, b: jnp.where(is_final, a, b), final, judged)
        if self.config.stop_below > 0:
            result = result._replace(num_used=self._num_used(agent, result))
        return result

    def commit(self, agent: PyTree, state: IdaqState) -> Hypothesis:
        """The final policy's; before the reference stage ends, as if it ended now.

        A hypothesis that has not run all of its n_e episodes is not judged yet. Before any is,
        it is the one that is being tried.
        """
        count = state.memory.count
        in_reference = count < self.config.num_reference_episodes
        if self.config.final == "posterior":
            kept = jnp.where(in_reference, self._kept_so_far(state), state.kept)
            final = self.algorithm.encode(agent, state.memory.episodes, kept)
        else:
            final = state.memory.hypotheses[jnp.nanargmin(state.uncertainty)]
        nothing_judged = in_reference & jnp.isnan(state.uncertainty).all()
        latest = jnp.where(count > 0, state.memory.hypotheses[count - 1], state.reference[0])
        return jnp.where(nothing_judged, latest, final)

    def record(self, state: IdaqState) -> Record:
        return {
            "uncertainty": state.uncertainty,
            "kept": state.kept,
            "threshold": state.threshold,
            "thresholds": state.thresholds,
            "tied": state.tied,
            **({"num_used": state.num_used} if self.config.stop_below > 0 else {}),
        }

    def _place_in_group(self, index: Scalar) -> Scalar:
        """An episode's index among the n_e of its hypothesis; both stages start at 0."""
        start = jnp.where(
            index < self.config.num_reference_episodes, 0, self.config.num_reference_episodes
        )
        return (index - start) % self.config.episodes_per_hypothesis

    def _kept_so_far(self, state: IdaqState) -> Mask:
        """What the reference stage would keep if it ended now."""
        num_reference, repeats = (
            self.config.num_reference_episodes,
            self.config.episodes_per_hypothesis,
        )
        nums = range(1, num_reference // repeats + 1)
        ranks = jnp.asarray([_rank(num, self.config.keep_percent) for num in nums])
        in_order = jnp.sort(state.uncertainty[:num_reference:repeats])  # NaN is last
        num_judged = state.memory.count // repeats
        return state.uncertainty <= in_order[ranks[jnp.maximum(num_judged, 1) - 1] - 1]

    def _posterior(self, agent: PyTree, state: IdaqState) -> Hypothesis:
        return self.algorithm.encode(agent, state.memory.episodes, state.kept)

    def _tried(self, agent: PyTree, state: IdaqState) -> Tried:
        """What searches see."""
        repeats, count = self.config.episodes_per_hypothesis, state.memory.count
        return Tried(
            prior=self.algorithm.prior(agent),
            posterior=self._posterior(agent, state),
            hypotheses=state.memory.hypotheses,
            was_tried=jnp.arange(self.num_episodes) < count,
            uncertainty=state.uncertainty,
            logged_uncertainty=self.uncertainty.of_logs(self.algorithm.logged_return(agent)),
            contradiction=state.contradiction,
            num_left=(self.num_episodes - 1 - count + repeats - 1) // repeats,
        )

    def _contradiction(self, agent: PyTree, episode: Episodes) -> Vector | float:
        """What the logs say of an episode, if a search reads it."""
        logs = logs_of(self.algorithm, agent) if self.searches.reads_logs else None
        return 0.0 if logs is None else contradiction(logs, self.algorithm.spec, episode)

    def _num_used(self, agent: PyTree, state: IdaqState) -> Scalar:
        """The episodes used if the search expects too little of the next try; else, the budget."""
        count = state.memory.count
        in_reference = count < self.config.num_reference_episodes
        gain = self.searches.gain(self._tried(agent, state), in_reference)
        is_enough = (gain < self.config.stop_below) & (self._place_in_group(count) == 0)
        return jnp.where(is_enough, jnp.minimum(state.num_used, count + 1), state.num_used)

    def _quantify(
        self,
        agent: PyTree,
        state: IdaqState,
        episode: Episodes,
        hypothesis: Hypothesis,
        is_final: Scalar,
    ) -> Scalar:
        """The uncertainty of the last n_e episodes; the final one is by itself, n_e times over."""
        repeats, last = self.config.episodes_per_hypothesis, state.memory.count - 1
        if repeats == 1:
            group = jax.tree.map(lambda x: x[None], episode)
        else:
            places = jnp.where(is_final, last, last - jnp.arange(repeats)[::-1])
            group = jax.tree.map(lambda x: x[places], state.memory.episodes)
        return self.uncertainty.quantify(group, hypothesis, view_of(self.algorithm, agent))

    def _limit(self, state: IdaqState) -> Scalar:
        """What the next episode is judged by: the threshold, or the best uncertainty so far."""
        if self.config.accept == "threshold":
            return state.threshold
        return jnp.nanmin(state.uncertainty, initial=jnp.inf)

    def _judge(self, state: IdaqState, value: Scalar) -> IdaqState:
        """Decide whether the last n_e episodes, of uncertainty `value`, are in-distribution."""
        repeats, num_reference = (
            self.config.episodes_per_hypothesis,
            self.config.num_reference_episodes,
        )
        first = state.memory.count - repeats
        places = jnp.arange(self.num_episodes)
        in_group = (places >= first) & (places < state.memory.count)
        uncertainty = jnp.where(in_group, value, state.uncertainty)

        # --- The reference stage ends: set the threshold ---
        reference = uncertainty[:num_reference:repeats]
        threshold = quantile_threshold(reference, self.config.keep_percent)
        reference_ends = state.memory.count == num_reference
        kept_reference = (uncertainty <= threshold) & (places < num_reference)
        tied = (reference == reference[0]).all() & (reference.shape[0] > 1)

        # --- The iterative stage: accept or reject ---
        iterating, limit = state.memory.count > num_reference, self._limit(state)
        if self.config.accept == "threshold":
            accepted, tightened = value <= limit, state.threshold
        else:
            accepted, tightened = value < limit, jnp.minimum(state.threshold, value)
        kept_iterative = state.kept | (in_group & accepted & iterating)

        judged_by = jnp.where(iterating & in_group, limit, state.thresholds)
        judged_by = jnp.where(reference_ends & (places < num_reference), threshold, judged_by)
        return state._replace(
            uncertainty=uncertainty,
            thresholds=judged_by,
            kept=jnp.where(reference_ends, kept_reference, kept_iterative),
            threshold=jnp.where(reference_ends, threshold, tightened),
            tied=jnp.where(reference_ends, tied, state.tied),
        )
