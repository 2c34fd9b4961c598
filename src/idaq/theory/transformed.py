"""The transformed BAMDP: a belief over task *and* behaviour policy (Definition 2, Theorem 2).

The belief is an exact posterior over the pairs (kappa, mu) of a family. An action is evidence too:
it is weighed by mu(a|s). What no pair can have produced has no posterior: the update is infeasible,
and `update_belief` returns None.

Departures from the paper:

1. Rewards and transitions are those expected under the belief *after* the action,
   b(kappa, mu) mu(a|s), normalised. The paper prints the belief before it. Only with the former
   does an infeasible outcome have probability zero, and only with it is the data of Theorem 2 (ii)
   distributed as the agent's experience (`outcome_law_as_printed` keeps the printed one).
2. As in `bamdp`, (r, s') has the joint law, and the belief update is pointwise.
3. An action that no behaviour policy in the belief takes has no outcomes: batch-constrained
   policies never need them.
"""

from fractions import Fraction

from idaq.theory.bamdp import (
    Belief,
    BeliefMdp,
    Expansion,
    HyperState,
    belief_after,
    enumerate_belief_mdp,
    expand_outcomes,
    product_of_marginals,
)
from idaq.theory.families import TabularFamily
from idaq.theory.mdps import Outcome, Policy
from idaq.theory.probabilities import ZERO


def prior_belief(family: TabularFamily) -> Belief:
    """p(kappa, mu) = p(kappa) p(mu|kappa)."""
    return tuple(hypothesis.prior for hypothesis in family.hypotheses)


def belief_given_action(family: TabularFamily, hyper_state: HyperState, action: int) -> Belief:
    """b(kappa, mu) mu(a|s), not normalised."""
    return tuple(
        b * hypothesis.behaviour[hyper_state.state].get(action, ZERO)
        for b, hypothesis in zip(hyper_state.belief, family.hypotheses, strict=True)
    )


def update_belief(
    family: TabularFamily, hyper_state: HyperState, action: int, outcome: Outcome
) -> HyperState | None:
    """The hyper-state after one step, or None where the update is infeasible."""
    weights = [
        b * family.mdps[hypothesis.task].outcomes[hyper_state.state][action].get(outcome, ZERO)
        for b, hypothesis in zip(
            belief_given_action(family, hyper_state, action), family.hypotheses, strict=True
        )
    ]
    _, belief = belief_after(weights)
    return None if belief is None else HyperState(outcome.next_state, belief)


def enumerate_transformed(
    family: TabularFamily, num_episodes: int, *, max_hyper_states: int = 100_000
) -> BeliefMdp:
    """The transformed BAMDP over N episodes: every hyper-state that feasible updates reach."""

    def expand(hyper_state: HyperState) -> Expansion:
        expansion: list[dict[Outcome, tuple[Fraction, HyperState]]] = []
        for action in range(family.num_actions):
            _, given_action = belief_after(belief_given_action(family, hyper_state, action))
            laws = [
                family.mdps[hypothesis.task].outcomes[hyper_state.state][action]
                for hypothesis in family.hypotheses
            ]
            expansion.append({} if given_action is None else expand_outcomes(laws, given_action))
        return expansion

    return enumerate_belief_mdp(
        family,
        prior_belief(family),
        expand,
        num_episodes=num_episodes,
        max_hyper_states=max_hyper_states,
    )


def outcome_law_as_printed(
    family: TabularFamily, hyper_state: HyperState, action: int
) -> dict[Outcome, Fraction]:
    """The printed law: expected reward law times expected transition law, before the action."""
    laws = [family.mdps[h.task].outcomes[hyper_state.state][action] for h in family.hypotheses]
    mixture = {
        outcome: probability
        for outcome, (probability, _) in expand_outcomes(laws, hyper_state.belief).items()
    }
    return product_of_marginals(mixture)


def mean_behaviour(transformed: BeliefMdp) -> Policy:
    """The one policy on hyper-states that the data follows: E_b[mu(a|s)]."""
    family = transformed.family
    policy: list[dict[int, Fraction]] = []
    for hyper_state in transformed.hyper_states:
        row = {
            action: sum(belief_given_action(family, hyper_state, action), ZERO)
            for action in range(family.num_actions)
        }
        policy.append({action: p for action, p in row.items() if p})
    return policy
