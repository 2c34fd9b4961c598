"""The probability that a policy leaves a dataset (Appendix A.4, Definition 6).

Departures from the paper:

1. Leaving can be judged on (s, a, r), as printed, or on (s, a, r, s'). Only with the latter does an
   episode that stays inside the data always have a feasible belief update (`swapped_corridors` in
   `examples` is a counterexample for the former).
2. The paper bounds p_out for every batch-constrained policy; `worst_leave_probability` computes the
   largest one.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Literal, TypeAlias

from idaq.theory.datasets import Dataset, batch_actions
from idaq.theory.mdps import LayeredMdp, Policy, Step
from idaq.theory.probabilities import ONE, ZERO

JudgedOn: TypeAlias = Literal["reward", "next-state"]
"""Whether a transition is in the data by its (s, a, r), as printed, or by its (s, a, r, s')."""


def is_inside(step: Step, dataset: Dataset, judged_on: JudgedOn) -> bool:
    """Whether a transition is in the data."""
    if judged_on == "next-state":
        return step in dataset.counts
    return (step.state, step.action, step.reward) in dataset.rewards_seen


def leave_probability(
    mdp: LayeredMdp, dataset: Dataset, policy: Policy, judged_on: JudgedOn = "reward"
) -> Fraction:
    """p_out: the probability that an episode of the policy leaves the data."""
    return _leave_probability(
        mdp,
        dataset,
        judged_on,
        lambda state, per_action: sum(
            (p * per_action[action] for action, p in policy[state].items()), ZERO
        ),
    )


def worst_leave_probability(
    mdp: LayeredMdp, dataset: Dataset, judged_on: JudgedOn = "reward"
) -> Fraction:
    """The largest p_out of any batch-constrained policy."""
    allowed = batch_actions(dataset, mdp)
    return _leave_probability(
        mdp,
        dataset,
        judged_on,
        lambda state, per_action: max(per_action[action] for action in allowed[state]),
    )


def _leave_probability(
    mdp: LayeredMdp,
    dataset: Dataset,
    judged_on: JudgedOn,
    combine: Callable[[int, Mapping[int, Fraction]], Fraction],
) -> Fraction:
    leaving = [ONE] * mdp.num_states
    for time in reversed(range(mdp.horizon)):
        for state in mdp.layers[time]:
            if state not in dataset.states_seen:
                continue
            per_action: dict[int, Fraction] = {}
            for action, law in enumerate(mdp.outcomes[state]):
                per_action[action] = ZERO
                for outcome, p in law.items():
                    step = Step(state, action, outcome.reward, outcome.next_state)
                    if not is_inside(step, dataset, judged_on):
                        per_action[action] += p
                    elif time < mdp.horizon - 1:
                        per_action[action] += p * leaving[outcome.next_state]
            leaving[state] = combine(state, per_action)
    return leaving[0]
