"""Task-dependent data collection: what logging with [mu] leaves in a belief MDP (Appendix A.1.4).

For every hyper-state the module computes how likely each pair (kappa, mu) is to have visited it,
and from that the law of (r, s') in the data, which Theorems 1 and 2 compare with the law met
online.

Departures from the paper:

1. The data's law carries the factor mu(a|s). The printed equation lacks it; on the example with v
   doors it gives 1/v and not the 1 that the proof of Theorem 1 uses. `action_factor=False` gives
   the printed one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from idaq.theory.bamdp import BeliefMdp
from idaq.theory.families import Hypothesis, TabularFamily
from idaq.theory.mdps import ActionSets, LayeredMdp, Outcome
from idaq.theory.probabilities import ONE, ZERO, from_weights

Visits: TypeAlias = Sequence[Sequence[Fraction]]
"""[hyper-state][hypothesis]: the probability that logging with mu in kappa visits it."""


def hypothesis_mdp(belief_mdp: BeliefMdp, hypothesis: Hypothesis) -> LayeredMdp:
    """The hyper-states under one task's dynamics, in place of the belief's mixture."""
    task = belief_mdp.family.mdps[hypothesis.task]
    outcomes = []
    for number, hyper_state in enumerate(belief_mdp.hyper_states):
        row = []
        for action, successors in enumerate(belief_mdp.successors[number]):
            law = task.outcomes[hyper_state.state][action]
            row.append(
                {Outcome(o.reward, successors[o]): p for o, p in law.items() if o in successors}
            )
        outcomes.append(tuple(row))
    return LayeredMdp(belief_mdp.mdp.layers, belief_mdp.mdp.num_actions, tuple(outcomes))


@dataclass(frozen=True, eq=False)
class Collection:
    """A belief MDP together with the visits of task-dependent data collection."""

    belief_mdp: BeliefMdp
    visits: Visits

    @property
    def family(self) -> TabularFamily:
        """The family that logged the data."""
        return self.belief_mdp.family

    def is_visited(self, number: int) -> bool:
        """Whether the data contains a hyper-state."""
        return any(self.visits[number])

    def weights(self, number: int, action: int, *, action_factor: bool = True) -> list[Fraction]:
        """How likely each hypothesis is to have left (s+, a) in the data, not normalised."""
        state = self.belief_mdp.hyper_states[number].state
        return [
            h.prior * visit * (h.behaviour[state].get(action, ZERO) if action_factor else ONE)
            for h, visit in zip(self.family.hypotheses, self.visits[number], strict=True)
        ]

    def contains(self, number: int, action: int) -> bool:
        """Whether the data contains (s+, a)."""
        return any(self.weights(number, action))

    def batch_actions(self) -> ActionSets:
        """What a batch-constrained meta-policy may do in each hyper-state.

        The data's actions where it contains the hyper-state, and anything where it does not.
        """
        actions = range(self.belief_mdp.mdp.num_actions)
        return [
            [a for a in actions if self.contains(number, a)] if self.is_visited(number) else actions
            for number in range(len(self.visits))
        ]

    def outcome_law(
        self, number: int, action: int, *, action_factor: bool = True
    ) -> dict[Outcome, Fraction]:
        """The law of (r, s') after (s+, a) in the data."""
        state = self.belief_mdp.hyper_states[number].state
        law: dict[Outcome, Fraction] = {}
        weights = self.weights(number, action, action_factor=action_factor)
        for weight, hypothesis in zip(weights, self.family.hypotheses, strict=True):
            if weight:
                for outcome, p in self.family.mdps[hypothesis.task].outcomes[state][action].items():
                    law[outcome] = law.get(outcome, ZERO) + weight * p
        return from_weights(law)

    def data_mdp(self) -> LayeredMdp:
        """The MDP that the data describes when it is unlimited: M_D+ in the limit."""
        successors = self.belief_mdp.successors
        outcomes = tuple(
            tuple(
                {
                    Outcome(outcome.reward, successors[number][action][outcome]): p
                    for outcome, p in self.outcome_law(number, action).items()
                }
                if self.is_visited(number) and self.contains(number, action)
                else {}
                for action in range(self.belief_mdp.mdp.num_actions)
            )
            for number in range(len(self.visits))
        )
        return LayeredMdp(self.belief_mdp.mdp.layers, self.belief_mdp.mdp.num_actions, outcomes)


def collect(belief_mdp: BeliefMdp) -> Collection:
    """Log data with every hypothesis and record which hyper-states it visits."""
    hypotheses = belief_mdp.family.hypotheses
    visits = [[ZERO] * len(hypotheses) for _ in belief_mdp.hyper_states]
    for index, hypothesis in enumerate(hypotheses):
        task = belief_mdp.family.mdps[hypothesis.task]
        visits[0][index] = ONE
        for layer in belief_mdp.mdp.layers[:-1]:
            for number in layer:
                probability = visits[number][index]
                if not probability:
                    continue
                state = belief_mdp.hyper_states[number].state
                for action, p in hypothesis.behaviour[state].items():
                    for outcome, q in task.outcomes[state][action].items():
                        successor = belief_mdp.successors[number][action][outcome]
                        visits[successor][index] += probability * p * q
    return Collection(belief_mdp, visits)


def leaving_probability(
    collection: Collection, *, sense: Literal["max", "min"] = "min"
) -> Fraction:
    """The extreme, over batch-constrained meta-policies, of the probability to leave the data.

    An agent has left once it is in a hyper-state that the data does not contain.
    """
    mdp = collection.belief_mdp.mdp
    choose = max if sense == "max" else min
    allowed = collection.batch_actions()
    leaving = [ZERO] * mdp.num_states
    for step in reversed(range(mdp.horizon)):
        for number in mdp.layers[step]:
            if not collection.is_visited(number):
                leaving[number] = ONE
            elif step < mdp.horizon - 1:
                leaving[number] = choose(
                    sum(
                        (p * leaving[s] for s, p in mdp.next_state_laws[number][action].items()),
                        ZERO,
                    )
                    for action in allowed[number]
                )
    return leaving[0]
