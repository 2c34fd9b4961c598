"""Finite-horizon MDPs with one set of states per step (Appendix A.1.1).

Values, visitation distributions, optima and trajectories, all exact. Tasks, dataset-induced MDPs
and belief MDPs are all instances of `LayeredMdp`.

Departures from the paper:

1. An MDP stores the joint law of (reward, next state) for each state and action, because in a
   belief MDP the two are dependent. For a task it is the product R(r|s,a) P(s'|s,a).
2. A pair (s, a) may have no outcomes at all. The paper sets the undefined rows of a
   dataset-induced MDP to zero; an empty law is the same thing, and can be told from a defined one.
3. States are numbered from 0, state 0 is the initial state, and the last layer leads back to it.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from idaq.theory.probabilities import ONE, ZERO, Distribution, T, mean, point_mass

Policy: TypeAlias = Sequence[Distribution[int]]
"""One distribution over actions per state; empty where the policy is never asked."""

ActionSets: TypeAlias = Sequence[Collection[int]]
"""The actions that are allowed in each state."""


class Outcome(NamedTuple):
    """What one step returns."""

    reward: Fraction
    next_state: int


class Step(NamedTuple):
    """One transition (s, a, r, s')."""

    state: int
    action: int
    reward: Fraction
    next_state: int


Trajectory: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class LayeredMdp:
    """A finite-horizon MDP whose states are partitioned by step."""

    layers: tuple[tuple[int, ...], ...]
    num_actions: int
    outcomes: tuple[tuple[Distribution[Outcome], ...], ...]  # [state][action]

    @property
    def horizon(self) -> int:
        """H, the number of steps of an episode."""
        return len(self.layers)

    @property
    def num_states(self) -> int:
        """|S|, over all steps."""
        return len(self.outcomes)

    @cached_property
    def reward_laws(self) -> tuple[tuple[dict[Fraction, Fraction], ...], ...]:
        """R(r|s,a): the marginal law of the reward."""
        return tuple(
            tuple(_marginal((o.reward, p) for o, p in law.items()) for law in row)
            for row in self.outcomes
        )

    @cached_property
    def next_state_laws(self) -> tuple[tuple[dict[int, Fraction], ...], ...]:
        """P(s'|s,a): the marginal law of the next state."""
        return tuple(
            tuple(_marginal((o.next_state, p) for o, p in law.items()) for law in row)
            for row in self.outcomes
        )

    @cached_property
    def mean_rewards(self) -> tuple[tuple[Fraction, ...], ...]:
        """r(s,a): the expected reward, zero where the pair is undefined."""
        return tuple(tuple(mean(law) for law in row) for row in self.reward_laws)

    @cached_property
    def defined_actions(self) -> tuple[tuple[int, ...], ...]:
        """The actions of each state that have outcomes."""
        return tuple(
            tuple(action for action, law in enumerate(row) if law) for row in self.outcomes
        )


def _marginal(weighted: Iterable[tuple[T, Fraction]]) -> dict[T, Fraction]:
    law: dict[T, Fraction] = {}
    for outcome, probability in weighted:
        law[outcome] = law.get(outcome, ZERO) + probability
    return law


# --- Values ---


def _action_value(
    mdp: LayeredMdp, state: int, action: int, values: Sequence[Fraction], *, is_last: bool
) -> Fraction:
    reward = mdp.mean_rewards[state][action]
    if is_last:
        return reward
    law = mdp.next_state_laws[state][action]
    return reward + sum((p * values[next_state] for next_state, p in law.items()), ZERO)


def policy_values(mdp: LayeredMdp, policy: Policy) -> list[Fraction]:
    """V of every state under a policy."""
    values = [ZERO] * mdp.num_states
    for step in reversed(range(mdp.horizon)):
        is_last = step == mdp.horizon - 1
        for state in mdp.layers[step]:
            values[state] = sum(
                (
                    p * _action_value(mdp, state, action, values, is_last=is_last)
                    for action, p in policy[state].items()
                ),
                ZERO,
            )
    return values


def policy_value(mdp: LayeredMdp, policy: Policy) -> Fraction:
    """J: the expected total reward of an episode."""
    return policy_values(mdp, policy)[0]


def best_value(
    mdp: LayeredMdp,
    actions: ActionSets | None = None,
    *,
    sense: Literal["max", "min"] = "max",
) -> tuple[Fraction, Policy]:
    """The extreme of J over policies that keep to the given actions, and a policy attaining it.

    By default every defined action is allowed, which in a dataset-induced MDP is the
    batch-constrained policy set.
    """
    choose = max if sense == "max" else min
    allowed = mdp.defined_actions if actions is None else actions
    values = [ZERO] * mdp.num_states
    policy: list[dict[int, Fraction]] = [{} for _ in range(mdp.num_states)]
    for step in reversed(range(mdp.horizon)):
        is_last = step == mdp.horizon - 1
        for state in mdp.layers[step]:
            candidates = {
                action: _action_value(mdp, state, action, values, is_last=is_last)
                for action in sorted(allowed[state])
            }
            if candidates:
                action = choose(candidates, key=candidates.__getitem__)
                values[state] = candidates[action]
                policy[state] = point_mass(action)
    return values[0], policy


def deterministic_policies(actions: ActionSets) -> Iterator[Policy]:
    """Every deterministic policy that keeps to the given actions.

    J is affine in each state's action distribution, so an extreme of J, or of a difference of two
    J's, over all policies is attained by one of these.
    """
    choices = [[point_mass(action) for action in sorted(row)] or [{}] for row in actions]
    yield from itertools.product(*choices)


# --- Visits ---


def visitation(mdp: LayeredMdp, policy: Policy) -> list[Fraction]:
    """rho(s), which sums to one over all states of all steps."""
    rho = [ZERO] * mdp.num_states
    rho[0] = Fraction(1, mdp.horizon)
    for layer in mdp.layers[:-1]:
        for state in layer:
            if rho[state]:
                for action, p in policy[state].items():
                    for next_state, q in mdp.next_state_laws[state][action].items():
                        rho[next_state] += rho[state] * p * q
    return rho


def pair_visitation(mdp: LayeredMdp, policy: Policy) -> dict[tuple[int, int], Fraction]:
    """rho(s,a), where it is positive."""
    return {
        (state, action): rho * p
        for state, rho in enumerate(visitation(mdp, policy))
        if rho
        for action, p in policy[state].items()
        if p
    }


def reward_visitation(mdp: LayeredMdp, policy: Policy) -> dict[tuple[int, int, Fraction], Fraction]:
    """rho(s,a,r), where it is positive."""
    return {
        (state, action, reward): rho * p
        for (state, action), rho in pair_visitation(mdp, policy).items()
        for reward, p in mdp.reward_laws[state][action].items()
    }


def step_visitation(mdp: LayeredMdp, policy: Policy) -> dict[Step, Fraction]:
    """rho(s,a,r,s'), where it is positive."""
    return {
        Step(state, action, outcome.reward, outcome.next_state): rho * p
        for (state, action), rho in pair_visitation(mdp, policy).items()
        for outcome, p in mdp.outcomes[state][action].items()
    }


def minimal_visitation(mdp: LayeredMdp, policy: Policy) -> Fraction:
    """d: the smallest positive rho(s,a)."""
    return min(pair_visitation(mdp, policy).values())


def trajectory_law(mdp: LayeredMdp, policy: Policy) -> dict[Trajectory, Fraction]:
    """The probability of every whole episode that a policy can produce."""
    partial: dict[Trajectory, Fraction] = {(): ONE}
    for _ in range(mdp.horizon):
        longer: dict[Trajectory, Fraction] = {}
        for trajectory, probability in partial.items():
            state = trajectory[-1].next_state if trajectory else 0
            for action, p in policy[state].items():
                for outcome, q in mdp.outcomes[state][action].items():
                    step = Step(state, action, outcome.reward, outcome.next_state)
                    longer[(*trajectory, step)] = probability * p * q
        partial = longer
    return partial
