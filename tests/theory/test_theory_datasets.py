"""Datasets, leaving and sampling: definitions against enumeration."""

import random
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idaq.theory.bamdp import enumerate_bamdp
from idaq.theory.datasets import (
    Dataset,
    approximate_value,
    batch_actions,
    dataset_mdp,
    is_batch_constrained,
)
from idaq.theory.examples import doors, noisy_doors, swapped_corridors
from idaq.theory.families import TabularFamily
from idaq.theory.leaving import JudgedOn, is_inside, leave_probability, worst_leave_probability
from idaq.theory.mdps import (
    LayeredMdp,
    Policy,
    Step,
    deterministic_policies,
    policy_value,
    trajectory_law,
)
from idaq.theory.probabilities import point_mass, uniform
from idaq.theory.random_families import (
    draw_batch_policy,
    draw_dataset,
    draw_family,
    draw_policy,
)
from idaq.theory.sampling import dataset_of, sample_dataset, sample_meta_dataset, seen_sets

RANDOM = st.randoms(use_true_random=False)
EXHAUSTIVE = settings(max_examples=200, derandomize=True, deadline=None)


def drawn(source: random.Random) -> tuple[TabularFamily, Dataset]:
    """A family and data of its first hypothesis, often too little to show everything."""
    family = draw_family(source.randint, max_horizon=3)
    copies = 20 * source.randint(0, 1)
    hypothesis = family.hypotheses[0]
    data = draw_dataset(source.randint, family.mdps[0], hypothesis.behaviour, num_copies=copies)
    return family, data


# --- Definitions ---


def test_counts_of_trajectories() -> None:
    zero, one = Fraction(0), Fraction(1)
    win, lose = Step(0, 0, one, 0), Step(0, 0, zero, 0)
    dataset = Dataset.from_trajectories([(win,), (win,), (lose,)])
    assert dataset.num_trajectories == 3
    assert dataset.counts == {win: 2, lose: 1}
    assert dataset.pair_counts == {(0, 0): 3}
    both = dataset + Dataset.from_trajectories([(lose,)])
    assert both.num_trajectories == 4
    assert both.counts == {win: 2, lose: 2}
    induced = dataset_mdp(dataset, doors(2).mdps[0])
    assert induced.reward_laws[0][0] == {one: Fraction(2, 3), zero: Fraction(1, 3)}
    assert induced.outcomes[0][1] == {}


@EXHAUSTIVE
@given(RANDOM)
def test_adp_is_evaluation_in_the_induced_mdp(source: random.Random) -> None:
    family, dataset = drawn(source)
    mdp = family.mdps[0]
    policy = draw_batch_policy(source.randint, dataset, mdp)
    assert is_batch_constrained(policy, dataset)
    induced = dataset_mdp(dataset, mdp)
    assert approximate_value(dataset, mdp, policy) == policy_value(induced, policy)


def test_adp_refuses_a_policy_that_is_not_batch_constrained() -> None:
    mdp = doors(2).mdps[0]
    dataset = Dataset.from_trajectories(trajectory_law(mdp, (point_mass(0),)))
    outside: Policy = (point_mass(1),)
    assert not is_batch_constrained(outside, dataset)
    with pytest.raises(ValueError, match="outside the dataset"):
        approximate_value(dataset, mdp, outside)


def test_batch_constraints_bind_only_where_there_is_data() -> None:
    family = swapped_corridors()
    only_left = Dataset.from_trajectories(
        trajectory_law(family.mdps[0], (point_mass(0), uniform((0, 1)), uniform((0, 1))))
    )
    assert [list(row) for row in batch_actions(only_left, family.mdps[0])] == [[0], [0, 1], [0, 1]]
    free: Policy = (point_mass(0), uniform((0, 1)), point_mass(1))
    assert is_batch_constrained(free, only_left)


# --- Leaving ---


def leave_by_enumeration(
    mdp: LayeredMdp, dataset: Dataset, policy: Policy, judged_on: JudgedOn
) -> Fraction:
    total = Fraction(0)
    for episode, p in trajectory_law(mdp, policy).items():
        inside = all(
            step.state in dataset.states_seen and is_inside(step, dataset, judged_on)
            for step in episode
        )
        total += 0 if inside else p
    return total


@EXHAUSTIVE
@given(RANDOM)
def test_leave_probability_by_enumeration(source: random.Random) -> None:
    family, dataset = drawn(source)
    policy = draw_policy(source.randint, [range(family.num_actions)] * family.num_states)
    for mdp in family.mdps:
        printed = leave_probability(mdp, dataset, policy, "reward")
        with_next_state = leave_probability(mdp, dataset, policy, "next-state")
        assert printed == leave_by_enumeration(mdp, dataset, policy, "reward")
        assert with_next_state == leave_by_enumeration(mdp, dataset, policy, "next-state")
        assert printed <= with_next_state


@EXHAUSTIVE
@given(RANDOM)
def test_the_worst_leave_probability_is_that_of_some_policy(source: random.Random) -> None:
    family, dataset = drawn(source)
    for mdp in family.mdps:
        allowed = batch_actions(dataset, mdp)
        every = [leave_probability(mdp, dataset, pi) for pi in deterministic_policies(allowed)]
        assert worst_leave_probability(mdp, dataset) == max(every)


def test_a_policy_that_is_not_batch_constrained_leaves() -> None:
    family = doors(3)
    dataset = Dataset.from_trajectories(trajectory_law(family.mdps[0], (point_mass(0),)))
    assert leave_probability(family.mdps[0], dataset, (point_mass(0),)) == 0
    assert leave_probability(family.mdps[0], dataset, (point_mass(1),)) == 1
    assert leave_probability(family.mdps[0], Dataset(0, {}), (point_mass(0),)) == 1


def test_the_printed_definition_overlooks_the_next_state() -> None:
    family = swapped_corridors()
    first = family.hypotheses[0].behaviour
    dataset = Dataset.from_trajectories(trajectory_law(family.mdps[0], first))
    run = (point_mass(0), point_mass(0), point_mass(0))
    assert leave_probability(family.mdps[1], dataset, run, "reward") == 0
    assert leave_probability(family.mdps[1], dataset, run, "next-state") == 1


# --- Random datasets ---


@settings(max_examples=40, derandomize=True, deadline=None)
@given(RANDOM)
def test_what_a_random_dataset_contains(source: random.Random) -> None:
    family = draw_family(source.randint)
    law = trajectory_law(family.mdps[0], family.hypotheses[0].behaviour)
    if len(law) > 5:
        law = dict(list(law.items())[:5])
        law = {t: p / sum(law.values()) for t, p in law.items()}
    num_trajectories = source.randint(1, 3)
    expected: Counter[frozenset[object]] = Counter()
    for draws in product(law, repeat=num_trajectories):
        probability = Fraction(1)
        for trajectory in draws:
            probability *= law[trajectory]
        expected[frozenset(draws)] += probability  # type: ignore[assignment]
    found = dict(seen_sets(law, num_trajectories))
    assert found == expected
    for seen in found:
        assert set(dataset_of(seen).counts) == {step for episode in seen for step in episode}


def test_sampled_counts_have_the_right_law() -> None:
    family = noisy_doors(2, success=Fraction(3, 4), loyalty=Fraction(2, 3))
    mdp, behaviour = family.mdps[0], family.hypotheses[0].behaviour
    generator = np.random.default_rng(0)
    dataset = sample_dataset(mdp, behaviour, 100_000, generator)
    assert sum(dataset.counts.values()) == dataset.num_trajectories == 100_000
    for episode, p in trajectory_law(mdp, behaviour).items():
        assert dataset.counts[episode[0]] == pytest.approx(100_000 * float(p), rel=0.03)


def test_meta_datasets_follow_one_task_per_trajectory() -> None:
    """Behind the doors, who has found the reward keeps finding it: every reward is 1."""
    bamdp = enumerate_bamdp(doors(3), 3)
    dataset = sample_meta_dataset(bamdp, 500, np.random.default_rng(0))
    assert dataset.num_trajectories == 500
    assert sum(dataset.counts.values()) == 1_500
    assert {step.reward for step in dataset.counts} == {Fraction(1)}
    assert len(dataset.states_seen) == 1 + 3 + 3
