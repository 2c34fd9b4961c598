"""Datasets as counts: induced MDPs, batch constraints and ADP (Appendix A.1.2 and Definition 7).

Everything that the paper defines from a dataset depends on how often each transition (s, a, r, s')
occurs in it, so a dataset is a table of counts and the number of its trajectories.

Departures from the paper:

1. A batch-constrained policy is constrained in the states that the data contains and free in the
   others. The printed set asks for pi(a|s) = 0 for *every* action of an unseen state, which no
   distribution satisfies; the sentence after it says what is meant.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from idaq.theory.mdps import ActionSets, LayeredMdp, Outcome, Policy, Step, Trajectory
from idaq.theory.probabilities import ZERO


@dataclass(frozen=True, eq=False)
class Dataset:
    """How often each transition occurs in a number of trajectories."""

    num_trajectories: int
    counts: Mapping[Step, int]

    @staticmethod
    def from_trajectories(trajectories: Iterable[Trajectory]) -> "Dataset":
        """Count the transitions of whole episodes."""
        episodes = list(trajectories)
        return Dataset(len(episodes), Counter(step for episode in episodes for step in episode))

    def __add__(self, other: "Dataset") -> "Dataset":
        """The union of two datasets."""
        counts = Counter(self.counts)
        counts.update(other.counts)
        return Dataset(self.num_trajectories + other.num_trajectories, counts)

    @cached_property
    def pair_counts(self) -> Mapping[tuple[int, int], int]:
        """N(s, a)."""
        pairs: Counter[tuple[int, int]] = Counter()
        for step, count in self.counts.items():
            pairs[step.state, step.action] += count
        return pairs

    @cached_property
    def rewards_seen(self) -> frozenset[tuple[int, int, Fraction]]:
        """The (s, a, r) that occur."""
        return frozenset((step.state, step.action, step.reward) for step in self.counts)

    @cached_property
    def states_seen(self) -> frozenset[int]:
        """The states that occur."""
        return frozenset(step.state for step in self.counts)

    def seen_actions(self, num_states: int) -> list[list[int]]:
        """The actions that occur in each state."""
        actions: list[list[int]] = [[] for _ in range(num_states)]
        for state, action in self.pair_counts:
            actions[state].append(action)
        return [sorted(row) for row in actions]


# --- Batch constraints, the induced MDP and ADP ---


def batch_actions(dataset: Dataset, mdp: LayeredMdp) -> ActionSets:
    """What a batch-constrained policy may do in each state."""
    everything = range(mdp.num_actions)
    return [row or everything for row in dataset.seen_actions(mdp.num_states)]


def is_batch_constrained(policy: Policy, dataset: Dataset) -> bool:
    """Whether a policy, in the states of the data, takes only actions of the data."""
    return all(
        (state, action) in dataset.pair_counts
        for state in dataset.states_seen
        for action, p in policy[state].items()
        if p
    )


def dataset_mdp(dataset: Dataset, mdp: LayeredMdp) -> LayeredMdp:
    """M_D: transition and reward functions estimated separately, undefined outside the data."""
    next_counts: Counter[tuple[int, int, int]] = Counter()
    reward_counts: Counter[tuple[int, int, Fraction]] = Counter()
    for step, count in dataset.counts.items():
        next_counts[step.state, step.action, step.next_state] += count
        reward_counts[step.state, step.action, step.reward] += count
    outcomes: list[list[dict[Outcome, Fraction]]] = [
        [{} for _ in range(mdp.num_actions)] for _ in range(mdp.num_states)
    ]
    rewards_of: dict[tuple[int, int], list[tuple[Fraction, int]]] = {}
    for (state, action, reward), count in reward_counts.items():
        rewards_of.setdefault((state, action), []).append((reward, count))
    for (state, action, next_state), next_count in next_counts.items():
        total = dataset.pair_counts[state, action]
        for reward, count in rewards_of[state, action]:
            outcomes[state][action][Outcome(reward, next_state)] = Fraction(
                count * next_count, total * total
            )
    return LayeredMdp(mdp.layers, mdp.num_actions, tuple(tuple(row) for row in outcomes))


def approximate_value(dataset: Dataset, mdp: LayeredMdp, policy: Policy) -> Fraction:
    """J_D: approximate dynamic programming, averaging r + V(s') over the tuples of the data."""
    if not is_batch_constrained(policy, dataset):
        raise ValueError("ADP is undefined for a policy that takes actions outside the dataset")
    samples: dict[tuple[int, int], list[tuple[Step, int]]] = {}
    for step, count in dataset.counts.items():
        samples.setdefault((step.state, step.action), []).append((step, count))
    values = [ZERO] * mdp.num_states
    for time in reversed(range(mdp.horizon)):
        for state in mdp.layers[time]:
            if state not in dataset.states_seen:
                continue
            for action, p in policy[state].items():
                target = ZERO
                for step, count in samples[state, action]:
                    future = ZERO if time == mdp.horizon - 1 else values[step.next_state]
                    target += count * (step.reward + future)
                values[state] += p * target / dataset.pair_counts[state, action]
    return values[0]
