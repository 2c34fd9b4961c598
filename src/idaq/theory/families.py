"""Finite families of tabular tasks with task-dependent behaviour policies (Appendix A.1.3, A.1.4).

A family is what the paper writes p(kappa), P^kappa, R^kappa and p(mu|kappa): tables per task, a
prior over tasks and, for each task, a distribution over the policies that may have logged its data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from idaq.theory.mdps import LayeredMdp, Outcome, Policy
from idaq.theory.probabilities import Distribution, T, max_distance


@dataclass(frozen=True, eq=False)
class TabularTask:
    """One task: P(s'|s,a) and R(r|s,a) as tables indexed [state][action]."""

    transitions: tuple[tuple[Distribution[int], ...], ...]
    rewards: tuple[tuple[Distribution[Fraction], ...], ...]


class Behaviour(NamedTuple):
    """A policy that may have logged a task's data, and p(mu|kappa)."""

    probability: Fraction
    policy: Policy


class Hypothesis(NamedTuple):
    """A pair (kappa, mu) and its prior p(kappa) p(mu|kappa)."""

    task: int
    behaviour: Policy
    prior: Fraction


@dataclass(frozen=True, eq=False)
class TabularFamily:
    """Tasks that share states, actions, rewards and horizon."""

    layers: tuple[tuple[int, ...], ...]
    num_actions: int
    reward_values: tuple[Fraction, ...]
    tasks: tuple[TabularTask, ...]
    prior: tuple[Fraction, ...]
    behaviours: tuple[tuple[Behaviour, ...], ...]  # [task]

    def __post_init__(self) -> None:
        """Refuse tables that are not distributions over the right outcomes."""
        if sorted(s for layer in self.layers for s in layer) != list(range(self.num_states)):
            raise ValueError(f"layers must partition states 0, 1, ...; got {self.layers}")
        if self.layers[0] != (0,):
            raise ValueError(f"the first layer must hold state 0 alone, got {self.layers[0]}")
        if not len(self.tasks) == len(self.prior) == len(self.behaviours):
            raise ValueError("a family needs one prior weight and one behaviour list per task")
        _require_distribution("the prior", dict(enumerate(self.prior)))
        actions = set(range(self.num_actions))
        for index, task in enumerate(self.tasks):
            for step, layer in enumerate(self.layers):
                following = set(self.layers[(step + 1) % self.horizon])
                for s in layer:
                    for a in actions:
                        where = f"in task {index}, state {s}, action {a}"
                        next_states, rewards = task.transitions[s][a], task.rewards[s][a]
                        _require_distribution(f"next states {where}", next_states, following)
                        _require_distribution(f"rewards {where}", rewards, self.reward_values)
            total = sum(behaviour.probability for behaviour in self.behaviours[index])
            if total != 1:
                raise ValueError(f"p(mu|kappa) of task {index} sums to {total}, not 1")
            for behaviour in self.behaviours[index]:
                for s, row in enumerate(behaviour.policy):
                    _require_distribution(f"behaviour in task {index}, state {s}", row, actions)

    @property
    def horizon(self) -> int:
        """H, the steps of one episode."""
        return len(self.layers)

    @property
    def num_states(self) -> int:
        """|S|."""
        return sum(len(layer) for layer in self.layers)

    @property
    def num_tasks(self) -> int:
        """The number of tasks in the prior."""
        return len(self.tasks)

    @cached_property
    def mdps(self) -> tuple[LayeredMdp, ...]:
        """Each task as an MDP."""
        return tuple(
            LayeredMdp(
                self.layers,
                self.num_actions,
                tuple(
                    tuple(
                        {
                            Outcome(reward, next_state): p * q
                            for reward, p in task.rewards[s][a].items()
                            for next_state, q in task.transitions[s][a].items()
                        }
                        for a in range(self.num_actions)
                    )
                    for s in range(self.num_states)
                ),
            )
            for task in self.tasks
        )

    @cached_property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """All pairs of a task and a behaviour policy, with their prior."""
        return tuple(
            Hypothesis(index, behaviour.policy, self.prior[index] * behaviour.probability)
            for index, behaviours in enumerate(self.behaviours)
            for behaviour in behaviours
        )

    def logged_by(self, *policies: Policy) -> "TabularFamily":
        """The same tasks, each logged by the one policy given for it."""
        behaviours = tuple((Behaviour(Fraction(1), policy),) for policy in policies)
        return replace(self, behaviours=behaviours)


def _require_distribution(
    what: str, law: Mapping[T, Fraction], outcomes: "set[T] | tuple[T, ...] | None" = None
) -> None:
    if sum(law.values()) != 1 or any(p <= 0 for p in law.values()):
        raise ValueError(f"{what}: positive probabilities must sum to 1, got {dict(law)}")
    if outcomes is not None and not law.keys() <= set(outcomes):
        raise ValueError(f"{what}: {sorted(map(str, law))} leaves {sorted(map(str, outcomes))}")


def task_distance(first: TabularTask, second: TabularTask) -> Fraction:
    """The L-infinity distance between two tasks' tables (the metric of the closest task)."""
    pairs = [
        (mine, theirs)
        for mine_rows, their_rows in zip(first.transitions, second.transitions, strict=True)
        for mine, theirs in zip(mine_rows, their_rows, strict=True)
    ]
    reward_pairs = [
        (mine, theirs)
        for mine_rows, their_rows in zip(first.rewards, second.rewards, strict=True)
        for mine, theirs in zip(mine_rows, their_rows, strict=True)
    ]
    return max(
        max(max_distance(mine, theirs) for mine, theirs in pairs),
        max(max_distance(mine, theirs) for mine, theirs in reward_pairs),
    )
