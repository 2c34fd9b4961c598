"""Return-based selection of in-distribution episodes (Section 4, Appendix A.5, Proposition 2).

A reference stage runs n_r episodes and keeps those whose uncertainty Q_RE, minus the return, is at
most a threshold: the bottom k% quantile. `kept_episodes` is that rule; `reference_stage` gives the
exact probability that what it keeps is in distribution.

Departures from the paper:

1. Assumption 1 is made a condition on the law of one episode: every return of an in-distribution
   episode exceeds every return of one that is out of distribution (`separates`).
2. The quantile is an observed value (the inverse of the empirical distribution function). With
   k% n_r above the number of in-distribution episodes, it is the uncertainty of an
   out-of-distribution one, which is then kept: the proposition needs the smallest k, which keeps
   the best episode and its ties.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, factorial, prod
from typing import NamedTuple

from idaq.theory.families import TabularFamily
from idaq.theory.mdps import trajectory_law
from idaq.theory.probabilities import ZERO
from idaq.theory.thompson import update_with_episode
from idaq.theory.transformed import prior_belief


class Episode(NamedTuple):
    """An episode's return, which selection sees, and whether it is in distribution."""

    total_reward: Fraction
    in_distribution: bool


def kept_episodes(returns: Sequence[Fraction], quantile: Fraction) -> list[int]:
    """The episodes whose uncertainty is at most the bottom quantile of all."""
    uncertainties = sorted(-value for value in returns)
    threshold = uncertainties[max(1, ceil(quantile * len(returns))) - 1]
    return [index for index, value in enumerate(returns) if -value <= threshold]


def separates(law: Mapping[Episode, Fraction]) -> bool:
    """Assumption 1: every in-distribution return exceeds every out-of-distribution one."""
    inside = [episode.total_reward for episode in law if episode.in_distribution]
    outside = [episode.total_reward for episode in law if not episode.in_distribution]
    return not inside or not outside or min(inside) > max(outside)


def reference_episode_law(family: TabularFamily, test_task: int) -> dict[Episode, Fraction]:
    """The law of one reference episode: a hypothesis from the prior, run in the test task."""
    prior = prior_belief(family)
    law: dict[Episode, Fraction] = {}
    for hypothesis in family.hypotheses:
        episodes = trajectory_law(family.mdps[test_task], hypothesis.behaviour)
        for trajectory, p in episodes.items():
            episode = Episode(
                total_reward=sum((step.reward for step in trajectory), ZERO),
                in_distribution=update_with_episode(family, prior, trajectory) is not None,
            )
            law[episode] = law.get(episode, ZERO) + hypothesis.prior * p
    return law


class ReferenceStage(NamedTuple):
    """The probabilities of two events in a reference stage."""

    met: Fraction  # some reference episode was in distribution
    clean: Fraction  # one was, and everything kept is

    @property
    def clean_if_met(self) -> Fraction:
        """The probability that all that is kept is in distribution, if any episode is."""
        return self.clean / self.met


def reference_stage(
    law: Mapping[Episode, Fraction], num_episodes: int, quantile: Fraction
) -> ReferenceStage:
    """The exact probabilities for a reference stage of i.i.d. episodes."""
    kinds = list(law)
    met = clean = ZERO
    for counts in _compositions(num_episodes, len(kinds)):
        ways = factorial(num_episodes) // prod(factorial(count) for count in counts)
        chances = (law[kind] ** count for kind, count in zip(kinds, counts, strict=True))
        probability = ways * prod(chances, start=Fraction(1))
        episodes = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
        if any(episode.in_distribution for episode in episodes):
            met += probability
            kept = kept_episodes([episode.total_reward for episode in episodes], quantile)
            if all(episodes[index].in_distribution for index in kept):
                clean += probability
    return ReferenceStage(met, clean)


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as an ordered sum of `parts` non-negative numbers."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)
