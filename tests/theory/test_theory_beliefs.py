"""The BAMDP and the transformed BAMDP: exact numbers, independent oracles, broken variants."""

import random
import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from idaq.theory import bamdp as beliefs_over_tasks
from idaq.theory import transformed as beliefs_over_pairs
from idaq.theory.bamdp import (
    BeliefMdp,
    HyperState,
    belief_after_as_printed,
    enumerate_bamdp,
    online_value,
    product_of_marginals,
)
from idaq.theory.collection import collect, leaving_probability
from idaq.theory.consistency import gaps_as_data_grows
from idaq.theory.datasets import dataset_mdp
from idaq.theory.examples import corridors, doors, noisy_doors, telling_rewards, wrong_doors
from idaq.theory.families import TabularFamily
from idaq.theory.histories import (
    confinement,
    history_probability,
    hyper_state_after,
    logged_histories,
    logged_outcome_laws,
)
from idaq.theory.mdps import Outcome, best_value, policy_value
from idaq.theory.random_families import draw_family, draw_num_episodes, draw_policy
from idaq.theory.sampling import sample_meta_dataset
from idaq.theory.transformed import (
    enumerate_transformed,
    mean_behaviour,
    outcome_law_as_printed,
    prior_belief,
)

RANDOM = st.randoms(use_true_random=False)
EXHAUSTIVE = settings(max_examples=200, derandomize=True, deadline=None)
WIN, LOSE = Outcome(Fraction(1), 0), Outcome(Fraction(0), 0)


def drawn(source: random.Random) -> tuple[TabularFamily, int]:
    family = draw_family(source.randint)
    return family, draw_num_episodes(source.randint, family)


# --- The BAMDP ---


@pytest.mark.parametrize("v", range(2, 9))
def test_hyper_states_of_the_doors(v: int) -> None:
    """At step t: every way to have excluded one to t doors, and every door that may be known."""
    bamdp = enumerate_bamdp(doors(v), v)
    for step, layer in enumerate(bamdp.mdp.layers):
        found = {tuple(b > 0 for b in bamdp.hyper_states[number].belief) for number in layer}
        expected = {
            support
            for support in product((True, False), repeat=v)
            if max(1, v - step) <= sum(support) <= v - min(step, 1)
        }
        if step:
            expected |= {tuple(door == known for door in range(v)) for known in range(v)}
        assert found == expected
        assert len(layer) == len(found)


def test_ten_tasks_and_ten_episodes_enumerate_quickly() -> None:
    started = time.process_time()
    bamdp = enumerate_bamdp(doors(10), 10)
    assert time.process_time() - started < 5
    assert best_value(bamdp.mdp)[0] == Fraction(11, 2)


def test_too_many_hyper_states_are_refused() -> None:
    with pytest.raises(ValueError, match="use fewer tasks or episodes"):
        enumerate_bamdp(doors(6), 6, max_hyper_states=50)


@pytest.mark.parametrize("v", range(3, 9))
def test_the_optimum_of_the_doors(v: int) -> None:
    bamdp = enumerate_bamdp(doors(v), v)
    value, policy = best_value(bamdp.mdp)
    assert value == Fraction(v + 1, 2) == online_value(bamdp, policy)


@EXHAUSTIVE
@given(RANDOM)
def test_value_in_the_bamdp_is_the_mean_over_tasks(source: random.Random) -> None:
    family, num_episodes = drawn(source)
    bamdp = enumerate_bamdp(family, num_episodes)
    policy = draw_policy(source.randint, [range(family.num_actions)] * len(bamdp.hyper_states))
    assert policy_value(bamdp.mdp, policy) == online_value(bamdp, policy)


def best_over_histories(family: TabularFamily, num_steps: int) -> Fraction:
    """The POMDP's optimum by recursion over whole histories, with unnormalised beliefs."""

    def value(state: int, weights: list[Fraction], left: int) -> Fraction:
        if not left:
            return Fraction(0)
        candidates = []
        for action in range(family.num_actions):
            per_outcome: dict[Outcome, list[Fraction]] = {}
            for index, mdp in enumerate(family.mdps):
                for outcome, p in mdp.outcomes[state][action].items():
                    row = per_outcome.setdefault(outcome, [Fraction(0)] * family.num_tasks)
                    row[index] += weights[index] * p
            candidates.append(
                sum(
                    sum(row) * outcome.reward + value(outcome.next_state, row, left - 1)
                    for outcome, row in per_outcome.items()
                )
            )
        return Fraction(max(candidates))

    return value(0, list(family.prior), num_steps)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(RANDOM)
def test_the_optimum_is_that_of_the_pomdp(source: random.Random) -> None:
    family, _ = drawn(source)
    num_episodes = 2 if family.horizon == 1 else 1
    optimum = best_value(enumerate_bamdp(family, num_episodes).mdp)[0]
    assert optimum == best_over_histories(family, num_episodes * family.horizon)


def test_updates_are_exact_and_impossible_outcomes_have_none() -> None:
    family = doors(3)
    start = HyperState(0, family.prior)
    after_win = beliefs_over_tasks.update_belief(family, start, 1, WIN)
    assert after_win == HyperState(0, (Fraction(0), Fraction(1), Fraction(0)))
    assert after_win is not None
    assert beliefs_over_tasks.update_belief(family, after_win, 1, LOSE) is None
    half = Fraction(1, 2)
    after_loss = beliefs_over_tasks.update_belief(family, start, 1, LOSE)
    assert after_loss == HyperState(0, (half, Fraction(0), half))


def test_the_printed_update_never_moves_the_belief() -> None:
    prior = (Fraction(1, 3), Fraction(2, 3))
    assert belief_after_as_printed(prior, [Fraction(1), Fraction(1, 5)]) == prior
    assert belief_after_as_printed(prior, [Fraction(0), Fraction(0)]) is None


def test_the_printed_product_law_gives_weight_to_the_impossible() -> None:
    joint = enumerate_bamdp(telling_rewards(), 1).outcome_law(0, 0)
    printed = product_of_marginals(joint)
    assert joint == {
        Outcome(Fraction(0), 1): Fraction(1, 2),
        Outcome(Fraction(1), 2): Fraction(1, 2),
    }
    assert set(printed.values()) == {Fraction(1, 4)}
    assert len(printed) == 4


# --- Data collection ---


@pytest.mark.parametrize("v", range(2, 8))
def test_shift_on_the_doors(v: int) -> None:
    data = collect(enumerate_bamdp(doors(v), 1))
    for action in range(v):
        assert data.outcome_law(0, action) == {WIN: 1}
        online = data.belief_mdp.outcome_law(0, action)
        assert online == {WIN: Fraction(1, v), LOSE: 1 - Fraction(1, v)}
        assert data.outcome_law(0, action, action_factor=False) == online


@pytest.mark.parametrize("v", range(2, 6))
def test_corridors_shift_even_without_the_action_factor(v: int) -> None:
    data = collect(enumerate_bamdp(corridors(v), 1))
    for number in data.belief_mdp.mdp.layers[1]:
        assert data.outcome_law(number, 0, action_factor=False) == {WIN: 1}
        assert data.belief_mdp.outcome_law(number, 0)[WIN] == Fraction(1, v)


def test_leaving_the_data_of_the_doors() -> None:
    assert leaving_probability(collect(enumerate_bamdp(doors(5), 5))) == Fraction(4, 5)
    assert leaving_probability(collect(enumerate_bamdp(doors(2), 2)), sense="max") == 0


def test_finite_data_says_the_same_as_unlimited_data_on_the_doors() -> None:
    bamdp = enumerate_bamdp(doors(4), 4)
    generator = np.random.default_rng(0)
    for size in (1, 2, 5, 30):
        dataset = sample_meta_dataset(bamdp, size, generator)
        induced = dataset_mdp(dataset, bamdp.mdp)
        assert best_value(induced, sense="min")[0] == best_value(induced)[0] == 4


# --- The transformed BAMDP ---


@EXHAUSTIVE
@given(RANDOM)
def test_feasible_updates_stay_in_the_data(source: random.Random) -> None:
    family, num_episodes = drawn(source)
    assert confinement(enumerate_transformed(family, num_episodes), family).holds


def laws(transformed: BeliefMdp) -> Iterator[tuple[int, int, int]]:
    for step, layer in enumerate(transformed.mdp.layers):
        for number in layer:
            for action in transformed.mdp.defined_actions[number]:
                yield step, number, action


@EXHAUSTIVE
@given(RANDOM)
def test_data_and_experience_have_one_law(source: random.Random) -> None:
    family, num_episodes = drawn(source)
    transformed = enumerate_transformed(family, num_episodes)
    data = collect(transformed)
    logged = [logged_outcome_laws(family, step) for step in range(transformed.mdp.horizon)]
    for step, number, action in laws(transformed):
        hyper_state = transformed.hyper_states[number]
        assert transformed.outcome_law(number, action) == logged[step][hyper_state][action]
        assert transformed.outcome_law(number, action) == data.outcome_law(number, action)


@EXHAUSTIVE
@given(RANDOM)
def test_the_data_is_that_of_the_mean_behaviour(source: random.Random) -> None:
    family, num_episodes = drawn(source)
    transformed = enumerate_transformed(family, num_episodes)
    policy = mean_behaviour(transformed)
    assert all(sum(row.values()) == 1 for row in policy)
    histories = logged_histories(family, transformed.mdp.horizon)
    total = Fraction(0)
    for history, likelihoods in histories.items():
        weights = zip(family.hypotheses, likelihoods, strict=True)
        probability = sum(h.prior * p for h, p in weights)
        assert probability == history_probability(transformed, policy, history)
        total += probability
    assert total == 1


@EXHAUSTIVE
@given(RANDOM)
def test_stepwise_updates_agree_with_bayes_rule_on_whole_histories(source: random.Random) -> None:
    family, _ = drawn(source)
    for history in logged_histories(family, 2):
        hyper_state: HyperState | None = HyperState(0, prior_belief(family))
        for step in history:
            assert hyper_state is not None
            outcome = Outcome(step.reward, step.next_state)
            hyper_state = beliefs_over_pairs.update_belief(
                family, hyper_state, step.action, outcome
            )
        assert hyper_state == hyper_state_after(family, history)


def test_an_outcome_that_no_behaviour_explains_is_infeasible() -> None:
    family = doors(3)
    start = HyperState(0, prior_belief(family))
    assert beliefs_over_pairs.update_belief(family, start, 0, WIN) is not None
    assert beliefs_over_pairs.update_belief(family, start, 0, LOSE) is None
    transformed = enumerate_transformed(family, 3)
    assert transformed.outcome_law(0, 0) == {WIN: 1}
    assert outcome_law_as_printed(family, start, 0)[LOSE] == Fraction(2, 3)


def test_the_transformed_value_counts_in_distribution_episodes() -> None:
    assert best_value(enumerate_transformed(doors(4), 4).mdp)[0] == 4


def test_a_behaviour_outside_of_the_belief_breaks_confinement() -> None:
    family = doors(3)
    found = confinement(enumerate_transformed(family, 2), family.logged_by(*wrong_doors(3)))
    assert not found.holds
    assert found.unsupported == 3
    assert found.infeasible_histories == 3


def test_without_the_transformation_evaluation_stays_inconsistent() -> None:
    family = noisy_doors(2, success=Fraction(3, 4), loyalty=Fraction(2, 3))
    generator = np.random.default_rng(0)
    sizes = (1_000, 100_000)
    consistent = gaps_as_data_grows(
        enumerate_transformed(family, 2), sizes, num_datasets=10, generator=generator
    )
    inconsistent = gaps_as_data_grows(
        enumerate_bamdp(family, 2), sizes, num_datasets=10, generator=generator
    )
    assert consistent[1] < consistent[0] / 5
    assert inconsistent[1] > inconsistent[0] / 2
    assert inconsistent[1] > 10 * consistent[1]


@st.composite
def families(draw: st.DrawFn) -> TabularFamily:
    return draw_family(lambda low, high: draw(st.integers(low, high)))


def printed_law_differs(family: TabularFamily) -> bool:
    transformed = enumerate_transformed(family, 1)
    return any(
        transformed.outcome_law(number, action)
        != outcome_law_as_printed(family, transformed.hyper_states[number], action)
        for _, number, action in laws(transformed)
    )


def test_a_counterexample_to_the_printed_law_shrinks() -> None:
    smallest = find(
        families(), printed_law_differs, settings=settings(derandomize=True, deadline=None)
    )
    assert printed_law_differs(smallest)
    assert smallest.num_tasks == 2
    assert len(smallest.hypotheses) == 2
