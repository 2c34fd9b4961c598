"""Layered MDPs and families against brute force."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idaq.theory.examples import coin, corridors, doors, noisy_doors
from idaq.theory.families import TabularFamily, task_distance
from idaq.theory.mdps import (
    Policy,
    best_value,
    deterministic_policies,
    minimal_visitation,
    pair_visitation,
    policy_value,
    reward_visitation,
    step_visitation,
    trajectory_law,
    visitation,
)
from idaq.theory.probabilities import from_weights, rate_is_at_most, uniform
from idaq.theory.random_families import draw_family, draw_policy

RANDOM = st.randoms(use_true_random=False)
EXHAUSTIVE = settings(max_examples=200, derandomize=True, deadline=None)


def drawn(source: random.Random) -> tuple[TabularFamily, Policy]:
    family = draw_family(source.randint, max_horizon=3)
    return family, draw_policy(source.randint, [range(family.num_actions)] * family.num_states)


@EXHAUSTIVE
@given(RANDOM)
def test_value_is_the_mean_return_over_trajectories(source: random.Random) -> None:
    family, policy = drawn(source)
    for mdp in family.mdps:
        law = trajectory_law(mdp, policy)
        assert sum(law.values()) == 1
        mean = sum(p * sum(step.reward for step in episode) for episode, p in law.items())
        assert policy_value(mdp, policy) == mean


@EXHAUSTIVE
@given(RANDOM)
def test_visitation_is_a_distribution_that_gives_the_value(source: random.Random) -> None:
    family, policy = drawn(source)
    for mdp in family.mdps:
        assert sum(visitation(mdp, policy)) == 1
        assert sum(pair_visitation(mdp, policy).values()) == 1
        assert sum(step_visitation(mdp, policy).values()) == 1
        per_reward = reward_visitation(mdp, policy)
        assert policy_value(mdp, policy) == mdp.horizon * sum(
            rho * reward for (_, _, reward), rho in per_reward.items()
        )
        assert minimal_visitation(mdp, policy) == min(pair_visitation(mdp, policy).values())


@EXHAUSTIVE
@given(RANDOM)
def test_best_value_is_the_extreme_over_deterministic_policies(source: random.Random) -> None:
    family, policy = drawn(source)
    for mdp in family.mdps:
        values = [policy_value(mdp, each) for each in deterministic_policies(mdp.defined_actions)]
        for sense, extreme in (("max", max(values)), ("min", min(values))):
            value, best = best_value(mdp, sense=sense)  # type: ignore[arg-type]
            assert value == extreme == policy_value(mdp, best)
        assert min(values) <= policy_value(mdp, policy) <= max(values)


def test_the_example_is_the_papers() -> None:
    family = doors(4)
    assert (family.horizon, family.num_states, family.num_actions, family.num_tasks) == (1, 1, 4, 4)
    assert family.prior == (Fraction(1, 4),) * 4
    for index, mdp in enumerate(family.mdps):
        assert mdp.mean_rewards[0] == tuple(Fraction(index == a) for a in range(4))
        ((probability, policy),) = family.behaviours[index]
        assert probability == 1
        assert policy[0] == {index: Fraction(1)}


def test_noise_reaches_rewards_and_behaviours() -> None:
    family = noisy_doors(3, success=Fraction(3, 4), loyalty=Fraction(1, 2))
    assert family.mdps[1].mean_rewards[0] == (Fraction(1, 4), Fraction(3, 4), Fraction(1, 4))
    quarter = Fraction(1, 4)
    assert family.hypotheses[1].behaviour[0] == {0: quarter, 1: Fraction(1, 2), 2: quarter}


def test_task_distance_is_the_largest_difference_of_any_table_entry() -> None:
    family = noisy_doors(3, success=Fraction(3, 4), loyalty=Fraction(1))
    assert task_distance(family.tasks[0], family.tasks[1]) == Fraction(1, 2)
    assert task_distance(family.tasks[0], family.tasks[0]) == 0
    corridor_tasks = corridors(2).tasks
    assert task_distance(*corridor_tasks) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": (Fraction(1, 2), Fraction(1, 4))}, "the prior"),
        ({"layers": ((1,), (0,))}, "first layer"),
        ({"layers": ((0,), (2,))}, "partition"),
        ({"reward_values": (Fraction(0),)}, "rewards in task 0"),
        ({"behaviours": ()}, "one behaviour list per task"),
    ],
)
def test_a_family_refuses_tables_that_do_not_fit(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(doors(2), **change)  # type: ignore[arg-type]


def test_small_laws() -> None:
    assert coin(Fraction(1)) == {Fraction(1): 1}
    assert uniform("ab") == {"a": Fraction(1, 2), "b": Fraction(1, 2)}
    with pytest.raises(ValueError, match="positive sum"):
        from_weights({"a": 0})


def test_rate_test_is_the_binomial_one() -> None:
    assert rate_is_at_most(0.05, 0, 400)
    assert not rate_is_at_most(0.05, 0, 100)  # 0.95^100 is about 0.006
    assert not rate_is_at_most(0.05, 20, 400)
