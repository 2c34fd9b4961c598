"""Whole histories, and the posteriors that Bayes' rule gives for them (Appendix A.3.2, Theorem 2).

The belief MDPs update a belief step by step. Here each history is weighed as a whole, by the
product of all its factors, for every pair (kappa, mu). This is an independent way to the same
posteriors, by which Theorem 2 is checked.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from idaq.theory.bamdp import BeliefMdp, HyperState, belief_after
from idaq.theory.families import TabularFamily
from idaq.theory.mdps import Outcome, Policy, Step, Trajectory
from idaq.theory.probabilities import ONE, ZERO

History: TypeAlias = Trajectory


def logged_histories(family: TabularFamily, num_steps: int) -> dict[History, list[Fraction]]:
    """Every history that data collection can produce: its probability under each hypothesis."""
    found: dict[History, list[Fraction]] = {(): [ONE] * len(family.hypotheses)}
    for _ in range(num_steps):
        longer: dict[History, list[Fraction]] = {}
        for history, likelihoods in found.items():
            state = history[-1].next_state if history else 0
            for index, hypothesis in enumerate(family.hypotheses):
                if not likelihoods[index]:
                    continue
                task = family.mdps[hypothesis.task]
                for action, p in hypothesis.behaviour[state].items():
                    for outcome, q in task.outcomes[state][action].items():
                        key = (*history, Step(state, action, outcome.reward, outcome.next_state))
                        row = longer.setdefault(key, [ZERO] * len(family.hypotheses))
                        row[index] = likelihoods[index] * p * q
        found = longer
    return found


def likelihoods_of(family: TabularFamily, history: History) -> list[Fraction]:
    """The probability of one history under each hypothesis, as a plain product."""
    result = []
    for hypothesis in family.hypotheses:
        task, likelihood = family.mdps[hypothesis.task], ONE
        for step in history:
            likelihood *= hypothesis.behaviour[step.state].get(step.action, ZERO)
            outcome = Outcome(step.reward, step.next_state)
            likelihood *= task.outcomes[step.state][step.action].get(outcome, ZERO)
        result.append(likelihood)
    return result


def hyper_state_after(family: TabularFamily, history: History) -> HyperState | None:
    """The hyper-state of the transformed BAMDP after a history; None if it is infeasible."""
    weights = [
        hypothesis.prior * likelihood
        for hypothesis, likelihood in zip(
            family.hypotheses, likelihoods_of(family, history), strict=True
        )
    ]
    _, belief = belief_after(weights)
    if belief is None:
        return None
    return HyperState(history[-1].next_state if history else 0, belief)


class Confinement(NamedTuple):
    """How the hyper-states that feasible updates reach compare with those in the data."""

    feasible: int
    unsupported: int  # feasible, but not in the data
    infeasible_histories: int  # in the data, but of probability zero under the belief

    @property
    def holds(self) -> bool:
        """Whether feasible updates never lead out of the data, nor data out of the belief."""
        return self.unsupported == 0 and self.infeasible_histories == 0


def confinement(transformed: BeliefMdp, logged: TabularFamily) -> Confinement:
    """Theorem 2 (i): compare the reachable hyper-states with those of the logged histories.

    `logged` is the family that the data comes from; the theorem is about the belief's own.
    """
    feasible = unsupported = infeasible = 0
    for step, layer in enumerate(transformed.mdp.layers):
        visited: set[HyperState] = set()
        for history in logged_histories(logged, step):
            hyper_state = hyper_state_after(transformed.family, history)
            if hyper_state is None:
                infeasible += 1
            else:
                visited.add(hyper_state)
        reachable = {transformed.hyper_states[number] for number in layer}
        feasible += len(reachable)
        unsupported += len(reachable - visited)
    return Confinement(feasible, unsupported, infeasible)


def logged_outcome_laws(
    family: TabularFamily, num_steps: int
) -> dict[HyperState, dict[int, dict[Outcome, Fraction]]]:
    """The law of (r, s') in the data after each (hyper-state, action) at one step.

    Histories that end in the same hyper-state of the transformed BAMDP are pooled.
    """
    pooled: dict[HyperState, dict[int, dict[Outcome, Fraction]]] = {}
    for history, likelihoods in logged_histories(family, num_steps + 1).items():
        hyper_state = hyper_state_after(family, history[:-1])
        if hyper_state is None:
            continue
        weight = sum(
            (h.prior * p for h, p in zip(family.hypotheses, likelihoods, strict=True)), ZERO
        )
        last = history[-1]
        law = pooled.setdefault(hyper_state, {}).setdefault(last.action, {})
        outcome = Outcome(last.reward, last.next_state)
        law[outcome] = law.get(outcome, ZERO) + weight
    for per_action in pooled.values():
        for action, law in per_action.items():
            total = sum(law.values(), ZERO)
            per_action[action] = {outcome: p / total for outcome, p in law.items()}
    return pooled


def history_probability(
    transformed: BeliefMdp, policy: Policy, history: Sequence[Step]
) -> Fraction:
    """The probability of a history when a meta-policy acts in the transformed BAMDP."""
    number, probability = 0, ONE
    for step in history:
        successors: Mapping[Outcome, int] = transformed.successors[number][step.action]
        outcome = Outcome(step.reward, step.next_state)
        if outcome not in successors:
            return ZERO
        successor = successors[outcome]
        law = transformed.mdp.outcomes[number][step.action]
        probability *= policy[number].get(step.action, ZERO)
        probability *= law[Outcome(step.reward, successor)]
        number = successor
    return probability
