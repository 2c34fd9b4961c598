"""Datasets drawn at random, and the exact law of what a random dataset contains.

Sampling draws the counts of i.i.d. trajectories state by state, so that its cost does not grow with
their number. Where a claim depends only on which trajectories occur at all, `seen_sets` gives their
joint law exactly.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from idaq.theory.bamdp import BeliefMdp
from idaq.theory.collection import hypothesis_mdp
from idaq.theory.datasets import Dataset
from idaq.theory.mdps import LayeredMdp, Policy, Step, Trajectory
from idaq.theory.probabilities import Distribution, Number, T, total


def sample_dataset(
    mdp: LayeredMdp, policy: Policy, num_trajectories: int, generator: np.random.Generator
) -> Dataset:
    """The dataset of i.i.d. trajectories of one policy in one MDP."""
    visits = [0] * mdp.num_states
    visits[0] = num_trajectories
    counts: dict[Step, int] = {}
    for time, layer in enumerate(mdp.layers):
        for state in layer:
            for action, num_pairs in _split(visits[state], policy[state], generator).items():
                law = mdp.outcomes[state][action]
                for outcome, count in _split(num_pairs, law, generator).items():
                    counts[Step(state, action, outcome.reward, outcome.next_state)] = count
                    if time < mdp.horizon - 1:
                        visits[outcome.next_state] += count
    return Dataset(num_trajectories, counts)


def sample_meta_dataset(
    belief_mdp: BeliefMdp, num_trajectories: int, generator: np.random.Generator
) -> Dataset:
    """D+: each trajectory draws a task and a behaviour policy, and logs hyper-states."""
    hypotheses = belief_mdp.family.hypotheses
    prior = {index: hypothesis.prior for index, hypothesis in enumerate(hypotheses)}
    dataset = Dataset(0, {})
    for index, count in _split(num_trajectories, prior, generator).items():
        behaviour = hypotheses[index].behaviour
        lifted = [behaviour[hyper_state.state] for hyper_state in belief_mdp.hyper_states]
        mdp = hypothesis_mdp(belief_mdp, hypotheses[index])
        dataset = dataset + sample_dataset(mdp, lifted, count, generator)
    return dataset


def _split(total: int, law: Distribution[T], generator: np.random.Generator) -> dict[T, int]:
    """Share `total` draws among the outcomes of a law."""
    if not total:
        return {}
    drawn = generator.multinomial(total, [float(p) for p in law.values()])
    return {outcome: int(count) for outcome, count in zip(law, drawn, strict=True) if count}


def seen_sets(
    law: Mapping[Trajectory, Number], num_trajectories: int
) -> Iterator[tuple[frozenset[Trajectory], Number]]:
    """Every set of trajectories that may be what a random dataset contains, and its probability.

    By inclusion and exclusion: P(seen = U) is the sum over W within U of
    (-1)^(|U| - |W|) P(W)^K. Exact for fractions; floats allow for more trajectories.
    """
    powers: dict[frozenset[Trajectory], Number] = {}
    for size in range(1, len(law) + 1):
        for chosen in combinations(law, size):
            seen = frozenset(chosen)
            powers[seen] = total(law[t] for t in chosen) ** num_trajectories
            probability = total(
                powers[frozenset(subset)] * (-1) ** (size - k)
                for k in range(1, size + 1)
                for subset in combinations(chosen, k)
            )
            if probability:
                yield seen, probability


def dataset_of(seen: frozenset[Trajectory]) -> Dataset:
    """A dataset that contains exactly the given trajectories, once each."""
    return Dataset.from_trajectories(sorted(seen))
