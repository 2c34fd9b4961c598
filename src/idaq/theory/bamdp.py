"""The Bayes-adaptive MDP: hyper-states by enumeration of reachable beliefs (Appendix A.1.3).

A hyper-state is a state and a belief, here an exact posterior over tasks. `enumerate_bamdp` walks
from the prior through every outcome that the belief allows, over N episodes, and returns the belief
MDP as a `LayeredMdp`, so that optima and policies' values are computed as for any MDP.

Departures from the paper:

1. The belief update multiplies each task's weight by that task's likelihood. The printed update
   multiplies the whole belief by the *expected* likelihood, one number for all tasks, which a
   normalisation removes: read literally, a belief would never move.
2. The law of (r, s') under a belief is the mixture E_b[R(r) P(s')]. The paper prints the product of
   the two mixtures, which differs if reward and next state depend on each other through the
   task, and may then give weight to outcomes that no task can produce.
3. Hyper-states are distinguished by step, as the paper's assumption of disjoint layers requires.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from idaq.theory.families import TabularFamily
from idaq.theory.mdps import LayeredMdp, Outcome, Policy
from idaq.theory.probabilities import ONE, ZERO, Distribution

Belief: TypeAlias = tuple[Fraction, ...]


class HyperState(NamedTuple):
    """A state and the belief that the experience so far has led to."""

    state: int
    belief: Belief


Expansion: TypeAlias = Sequence[Mapping[Outcome, tuple[Fraction, HyperState]]]
"""For each action: every possible outcome with its probability and the hyper-state it leads to."""


@dataclass(frozen=True, eq=False)
class BeliefMdp:
    """A belief MDP whose states are the reachable hyper-states, numbered step by step."""

    family: TabularFamily
    mdp: LayeredMdp
    hyper_states: tuple[HyperState, ...]
    successors: tuple[tuple[Mapping[Outcome, int], ...], ...]  # [hyper-state][action][outcome]

    def outcome_law(self, number: int, action: int) -> dict[Outcome, Fraction]:
        """The law of (reward, next state) that an agent meets in a hyper-state."""
        law: dict[Outcome, Fraction] = {}
        for outcome, successor in self.successors[number][action].items():
            key = Outcome(outcome.reward, successor)
            law[outcome] = self.mdp.outcomes[number][action][key]
        return law


def belief_after(weights: Sequence[Fraction]) -> tuple[Fraction, Belief | None]:
    """The total of unnormalised posterior weights, and the posterior.

    The posterior is None when the total is zero: what happened had probability zero under the
    belief, and the update is infeasible.
    """
    total = sum(weights, ZERO)
    if not total:
        return ZERO, None
    return total, tuple(weight / total if weight else ZERO for weight in weights)


def update_belief(
    family: TabularFamily, hyper_state: HyperState, action: int, outcome: Outcome
) -> HyperState | None:
    """The hyper-state after one step, or None if no task in the belief can produce it."""
    weights = [
        b * mdp.outcomes[hyper_state.state][action].get(outcome, ZERO)
        for b, mdp in zip(hyper_state.belief, family.mdps, strict=True)
    ]
    _, belief = belief_after(weights)
    return None if belief is None else HyperState(outcome.next_state, belief)


def expand_outcomes(
    laws: Sequence[Distribution[Outcome]], belief: Sequence[Fraction]
) -> dict[Outcome, tuple[Fraction, HyperState]]:
    """Every outcome that the believed-in laws allow, with its probability and its posterior."""
    weights: dict[Outcome, list[Fraction]] = {}
    for index, (b, law) in enumerate(zip(belief, laws, strict=True)):
        if b:
            for outcome, p in law.items():
                weights.setdefault(outcome, [ZERO] * len(belief))[index] = b * p
    expansion = {}
    for outcome, row in weights.items():
        total, posterior = belief_after(row)
        if posterior is not None:
            expansion[outcome] = (total, HyperState(outcome.next_state, posterior))
    return expansion


def enumerate_belief_mdp(
    family: TabularFamily,
    prior: Belief,
    expand: Callable[[HyperState], Expansion],
    *,
    num_episodes: int,
    max_hyper_states: int,
) -> BeliefMdp:
    """Number the hyper-states that are reachable at each step and link them by outcomes."""
    expansions: dict[HyperState, Expansion] = {}
    hyper_states = [HyperState(0, prior)]
    layers: list[tuple[int, ...]] = []
    successors: list[tuple[dict[Outcome, int], ...]] = []
    outcomes: list[tuple[dict[Outcome, Fraction], ...]] = []
    start = 0
    horizon = num_episodes * family.horizon
    for step in range(horizon):
        end = len(hyper_states)
        layers.append(tuple(range(start, end)))
        numbers: dict[HyperState, int] = {}
        for number in range(start, end):
            hyper_state = hyper_states[number]
            if hyper_state not in expansions:
                expansions[hyper_state] = expand(hyper_state)
            links: list[dict[Outcome, int]] = []
            laws: list[dict[Outcome, Fraction]] = []
            for per_outcome in expansions[hyper_state]:
                link: dict[Outcome, int] = {}
                law: dict[Outcome, Fraction] = {}
                for outcome, (probability, successor) in per_outcome.items():
                    if step == horizon - 1:
                        next_number = 0
                    elif successor in numbers:
                        next_number = numbers[successor]
                    else:
                        next_number = numbers[successor] = len(hyper_states)
                        hyper_states.append(successor)
                    link[outcome] = next_number
                    law[Outcome(outcome.reward, next_number)] = probability
                links.append(link)
                laws.append(law)
            successors.append(tuple(links))
            outcomes.append(tuple(laws))
        if len(hyper_states) > max_hyper_states:
            raise ValueError(
                f"more than {max_hyper_states} hyper-states after {step + 1} of {horizon} steps: "
                "use fewer tasks or episodes, or raise max_hyper_states"
            )
        start = end
    mdp = LayeredMdp(tuple(layers), family.num_actions, tuple(outcomes))
    return BeliefMdp(family, mdp, tuple(hyper_states), tuple(successors))


def enumerate_bamdp(
    family: TabularFamily, num_episodes: int, *, max_hyper_states: int = 100_000
) -> BeliefMdp:
    """M+ over N episodes: beliefs over tasks, started from the prior."""

    def expand(hyper_state: HyperState) -> Expansion:
        return [
            expand_outcomes(
                [mdp.outcomes[hyper_state.state][action] for mdp in family.mdps],
                hyper_state.belief,
            )
            for action in range(family.num_actions)
        ]

    return enumerate_belief_mdp(
        family,
        family.prior,
        expand,
        num_episodes=num_episodes,
        max_hyper_states=max_hyper_states,
    )


# --- What the paper prints ---


def product_of_marginals(law: Distribution[Outcome]) -> dict[Outcome, Fraction]:
    """R+(r) P+(s'): the law that the paper prints in place of the joint one."""
    rewards: dict[Fraction, Fraction] = {}
    next_states: dict[int, Fraction] = {}
    for outcome, p in law.items():
        rewards[outcome.reward] = rewards.get(outcome.reward, ZERO) + p
        next_states[outcome.next_state] = next_states.get(outcome.next_state, ZERO) + p
    return {Outcome(r, s): p * q for r, p in rewards.items() for s, q in next_states.items()}


def belief_after_as_printed(belief: Belief, likelihoods: Sequence[Fraction]) -> Belief | None:
    """The printed update: the belief times the expected likelihood, normalised."""
    expected = sum((b * p for b, p in zip(belief, likelihoods, strict=True)), ZERO)
    return belief_after([expected * b for b in belief])[1]


# --- Online evaluation, task by task ---


def online_value(belief_mdp: BeliefMdp, policy: Policy) -> Fraction:
    """The expected return in a task drawn from the prior, by running the policy in every task.

    The agent tracks its belief; rewards and states come from the task alone. This is the right-hand
    side of the paper's equation for J(pi+), computed without the belief MDP's own law.
    """
    family, mdp = belief_mdp.family, belief_mdp.mdp
    value = ZERO
    for task_prior, task in zip(family.prior, family.mdps, strict=True):
        reached: dict[int, Fraction] = {0: ONE}
        for _ in range(mdp.horizon):
            following: dict[int, Fraction] = {}
            for number, probability in reached.items():
                state = belief_mdp.hyper_states[number].state
                for action, p in policy[number].items():
                    for outcome, q in task.outcomes[state][action].items():
                        weight = probability * p * q
                        value += task_prior * weight * outcome.reward
                        successor = belief_mdp.successors[number][action][outcome]
                        following[successor] = following.get(successor, ZERO) + weight
            reached = following
    return value
