"""Both sides of the deterministic lemmas, exactly (Appendix A.6 and A.7).

Each function computes both sides of an inequality for one pair of MDPs (or one MDP and one dataset)
and one policy. The side conditions' epsilons are the smallest for which the lemma applies.

Departures from the paper:

1. Lemma 7 asks for two MDPs with the same reward *function*; the lemma compares their reward
   functions, so what they share is the reward space.
2. `leave_with_next_state` is Lemma 4 for leaving judged on (s, a, r, s'); it is not in the paper.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from idaq.theory.datasets import Dataset, dataset_mdp
from idaq.theory.leaving import leave_probability
from idaq.theory.mdps import (
    LayeredMdp,
    Outcome,
    Policy,
    pair_visitation,
    policy_value,
    reward_visitation,
    step_visitation,
    visitation,
)
from idaq.theory.probabilities import ONE, ZERO, l1_distance, max_distance


class Inequality(NamedTuple):
    """left <= right, and the value that left can never exceed anyway."""

    left: Fraction
    right: Fraction
    trivial: Fraction

    @property
    def holds(self) -> bool:
        """Whether the inequality is true."""
        return self.left <= self.right

    @property
    def is_vacuous(self) -> bool:
        """Whether the right-hand side says nothing."""
        return self.right >= self.trivial


class Deviations(NamedTuple):
    """How far apart two MDPs are on given pairs: epsilon_P (L1), epsilon_r and epsilon_R."""

    transitions: Fraction
    mean_rewards: Fraction
    rewards: Fraction


def deviations(
    first: LayeredMdp, second: LayeredMdp, pairs: Iterable[tuple[int, int]]
) -> Deviations:
    """The largest differences of transitions, mean rewards and reward laws over the pairs."""
    largest = Deviations(ZERO, ZERO, ZERO)
    for s, a in pairs:
        here = Deviations(
            l1_distance(first.next_state_laws[s][a], second.next_state_laws[s][a]),
            abs(first.mean_rewards[s][a] - second.mean_rewards[s][a]),
            max_distance(first.reward_laws[s][a], second.reward_laws[s][a]),
        )
        largest = Deviations(*map(max, largest, here))
    return largest


def _every_pair(mdp: LayeredMdp) -> list[tuple[int, int]]:
    return [(s, a) for s in range(mdp.num_states) for a in range(mdp.num_actions)]


# --- Simulation lemmas ---


def _simulation(
    first: LayeredMdp, second: LayeredMdp, policy: Policy, epsilon: Deviations
) -> Inequality:
    horizon = first.horizon
    r_max = max(r for mdp in (first, second) for row in mdp.mean_rewards for r in row)
    gap = abs(policy_value(first, policy) - policy_value(second, policy))
    bound = horizon * epsilon.mean_rewards
    bound += Fraction(horizon * (horizon - 1), 2) * r_max * epsilon.transitions
    return Inequality(gap, bound, trivial=horizon * r_max)


def simulation(first: LayeredMdp, second: LayeredMdp, policy: Policy) -> Inequality:
    """Lemma 7: |J_1 - J_2| <= H eps_r + H (H - 1) r_max eps_P / 2."""
    return _simulation(first, second, policy, deviations(first, second, _every_pair(first)))


def offline_simulation(mdp: LayeredMdp, dataset: Dataset, policy: Policy) -> Inequality:
    """Lemma 2: the same for M and M_D, with epsilons over the pairs that pi visits in M_D."""
    induced = dataset_mdp(dataset, mdp)
    visited = pair_visitation(induced, policy)
    return _simulation(mdp, induced, policy, deviations(mdp, induced, visited))


# --- Visitation lemmas ---


def _visitation(
    first: LayeredMdp,
    second: LayeredMdp,
    policy: Policy,
    epsilon: Deviations,
    num_rewards: int,
) -> Inequality:
    left = _visitation_distance(first, second, policy)
    num_triples = first.num_states * first.num_actions * num_rewards
    right = (num_triples + first.num_states) * Fraction(first.horizon - 1, 2) * epsilon.transitions
    return Inequality(left, right + num_triples * epsilon.rewards, trivial=Fraction(4))


def _visitation_distance(first: LayeredMdp, second: LayeredMdp, policy: Policy) -> Fraction:
    """The L1 distances of rho(s) and of rho(s,a,r), added."""
    states = l1_distance(
        dict(enumerate(visitation(first, policy))), dict(enumerate(visitation(second, policy)))
    )
    return states + l1_distance(reward_visitation(first, policy), reward_visitation(second, policy))


def visitation_change(
    first: LayeredMdp, second: LayeredMdp, policy: Policy, num_rewards: int
) -> Inequality:
    """Lemma 8: the change of rho between two MDPs."""
    epsilon = deviations(first, second, _every_pair(first))
    return _visitation(first, second, policy, epsilon, num_rewards)


def offline_visitation_change(
    mdp: LayeredMdp, dataset: Dataset, policy: Policy, num_rewards: int
) -> Inequality:
    """Lemma 6: the change of rho between M and M_D."""
    induced = dataset_mdp(dataset, mdp)
    epsilon = deviations(mdp, induced, pair_visitation(induced, policy))
    return _visitation(mdp, induced, policy, epsilon, num_rewards)


# --- Leaving ---


def leave(mdp: LayeredMdp, dataset: Dataset, policy: Policy) -> Inequality:
    """Lemma 4: p_out <= H (|rho(s) - rho_D(s)|_1 + |rho(s,a,r) - rho_D(s,a,r)|_1)."""
    induced = dataset_mdp(dataset, mdp)
    right = mdp.horizon * _visitation_distance(mdp, induced, policy)
    return Inequality(leave_probability(mdp, dataset, policy), right, trivial=ONE)


def leave_with_next_state(mdp: LayeredMdp, dataset: Dataset, policy: Policy) -> Inequality:
    """The same with s': p_out <= H |rho(s,a,r,s') - rho_D(s,a,r,s')|_1, counting tuples jointly."""
    outcomes: list[list[dict[Outcome, Fraction]]] = [
        [{} for _ in range(mdp.num_actions)] for _ in range(mdp.num_states)
    ]
    for step, count in dataset.counts.items():
        share = Fraction(count, dataset.pair_counts[step.state, step.action])
        outcomes[step.state][step.action][Outcome(step.reward, step.next_state)] = share
    joint = LayeredMdp(mdp.layers, mdp.num_actions, tuple(tuple(row) for row in outcomes))
    distance = l1_distance(step_visitation(mdp, policy), step_visitation(joint, policy))
    left = leave_probability(mdp, dataset, policy, "next-state")
    return Inequality(left, mdp.horizon * distance, trivial=ONE)
