"""The deterministic lemmas on random families, and the constants that they need."""

import random
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idaq.theory.bounds import (
    Sizes,
    closest_task_bound,
    closest_task_bound_as_printed,
    concentration_bound,
    hoeffding_step,
    leave_bound,
    leave_bound_as_printed,
    missed_distance_bound,
    num_cells,
    pair_distance_bound,
    rarest_visit,
)
from idaq.theory.closest import (
    closest_task,
    closest_task_law,
    missed_probability,
    missed_probability_as_multiplied,
    point_distances,
    task_distances,
)
from idaq.theory.consistency import log_log_slope, worst_evaluation_gap
from idaq.theory.datasets import Dataset, dataset_mdp
from idaq.theory.examples import doors, levers, noisy_doors, rare_lever
from idaq.theory.families import TabularFamily
from idaq.theory.lemmas import (
    Inequality,
    leave,
    leave_with_next_state,
    offline_simulation,
    offline_visitation_change,
    simulation,
    visitation_change,
)
from idaq.theory.mdps import Policy, policy_value
from idaq.theory.random_families import (
    blend,
    draw_batch_policy,
    draw_dataset,
    draw_family,
    draw_points,
    draw_policy,
)

RANDOM = st.randoms(use_true_random=False)
EXHAUSTIVE = settings(max_examples=200, derandomize=True, deadline=None)


def any_policy(source: random.Random, family: TabularFamily) -> Policy:
    return draw_policy(source.randint, [range(family.num_actions)] * family.num_states)


def data_of(source: random.Random, family: TabularFamily) -> Dataset:
    mdp, behaviour = family.mdps[0], family.hypotheses[0].behaviour
    copies = 100 * source.randint(0, 1)
    return draw_dataset(source.randint, mdp, behaviour, num_copies=copies)


# --- Simulation, visitation, leaving ---


@EXHAUSTIVE
@given(RANDOM)
def test_lemmas_for_an_mdp_and_a_dataset(source: random.Random) -> None:
    family = draw_family(source.randint, max_horizon=3)
    mdp, dataset = family.mdps[0], data_of(source, family)
    policy = draw_batch_policy(source.randint, dataset, mdp)
    assert offline_simulation(mdp, dataset, policy).holds
    assert offline_visitation_change(mdp, dataset, policy, len(family.reward_values)).holds


@EXHAUSTIVE
@given(RANDOM)
def test_lemmas_for_two_mdps(source: random.Random) -> None:
    family = draw_family(source.randint, max_horizon=3)
    share = Fraction(source.randint(0, 20), 20)
    first, second = family.mdps[0], blend(family.mdps[0], family.mdps[1], share)
    policy = any_policy(source, family)
    assert simulation(first, second, policy).holds
    assert visitation_change(first, second, policy, len(family.reward_values)).holds


@EXHAUSTIVE
@given(RANDOM)
def test_lemma_on_leaving_for_any_policy_and_dataset(source: random.Random) -> None:
    family = draw_family(source.randint, max_horizon=3)
    dataset, policy = data_of(source, family), any_policy(source, family)
    for mdp in family.mdps:
        assert leave(mdp, dataset, policy).holds
        assert leave_with_next_state(mdp, dataset, policy).holds


def violated(instance: Callable[[random.Random], Inequality], scale: Fraction) -> bool:
    """Whether shrinking the right-hand side breaks an inequality on some random family."""
    source = random.Random(0)
    cases = (instance(source) for _ in range(300))
    return any(case.left > scale * case.right for case in cases)


def simulation_case(source: random.Random) -> Inequality:
    family = draw_family(source.randint, max_horizon=3)
    return simulation(family.mdps[0], family.mdps[1], any_policy(source, family))


def leave_case(source: random.Random) -> Inequality:
    family = draw_family(source.randint)
    return leave(family.mdps[1], data_of(source, family), any_policy(source, family))


@pytest.mark.parametrize("case", [simulation_case, leave_case])
def test_the_constants_cannot_be_much_smaller(case: Callable[[random.Random], Inequality]) -> None:
    assert not violated(case, Fraction(1))
    assert violated(case, Fraction(9, 10))


def test_a_policy_outside_of_the_data_has_a_gap_that_data_does_not_close() -> None:
    family = noisy_doors(2, success=Fraction(3, 4), loyalty=Fraction(1))
    mdp, behaviour = family.mdps[0], family.hypotheses[0].behaviour
    outside: Policy = ({1: Fraction(1)},)
    gaps, batch_gaps = [], []
    for copies in (40, 400, 4_000):
        dataset = draw_dataset(lambda low, high: low, mdp, behaviour, num_copies=copies)
        induced = dataset_mdp(dataset, mdp)
        gaps.append(abs(policy_value(induced, outside) - policy_value(mdp, outside)))
        batch_gaps.append(worst_evaluation_gap(dataset, mdp))
    assert gaps == [Fraction(1, 4)] * 3
    assert batch_gaps == [0, 0, 0]


# --- The closest task ---


def missed_by_enumeration(
    distances: list[list[Fraction]], weights: list[Fraction], distance: Fraction, num_tasks: int
) -> Fraction:
    """Sum over every test point and every sequence of training points."""
    total = Fraction(0)
    for test, weight in enumerate(weights):
        sequences: list[tuple[tuple[int, ...], Fraction]] = [((), weight)]
        for _ in range(num_tasks):
            sequences = [
                ((*chosen, index), probability * weights[index])
                for chosen, probability in sequences
                for index in range(len(weights))
            ]
        for chosen, probability in sequences:
            if min(distances[test][index] for index in chosen) >= distance:
                total += probability
    return total


@settings(max_examples=40, derandomize=True, deadline=None)
@given(RANDOM)
def test_missed_probability_by_enumeration(source: random.Random) -> None:
    points, weights = draw_points(source.randint)
    distances = [list(row) for row in point_distances(points)]
    distance, num_tasks = Fraction(source.randint(1, 4), 4), source.randint(1, 3)
    expected = missed_by_enumeration(distances, weights, distance, num_tasks)
    assert missed_probability(distances, weights, distance, num_tasks) == expected


@EXHAUSTIVE
@given(RANDOM)
def test_two_random_points_are_often_close(source: random.Random) -> None:
    points, weights = draw_points(source.randint)
    distance = Fraction(source.randint(1, 12), 12)
    far = missed_probability(point_distances(points), weights, distance, 1)
    assert far <= pair_distance_bound(distance, len(points[0]))


@EXHAUSTIVE
@given(RANDOM)
def test_the_corrected_closest_task_bound(source: random.Random) -> None:
    points, weights = draw_points(source.randint)
    distance, num_tasks = Fraction(source.randint(1, 12), 12), source.randint(1, 60)
    distances, dimension = point_distances(points), len(points[0])
    missed = missed_probability(distances, weights, distance, num_tasks)
    bound = missed_distance_bound(distance, dimension, num_tasks)
    assert missed <= bound
    # The closed form with e and the cube's side of epsilon / 2 is weaker, never stronger.
    assert float(bound) <= (2 / float(distance)) ** dimension / (2.718281828459045 * num_tasks)


@EXHAUSTIVE
@given(RANDOM)
def test_multiplying_dependent_events_underestimates(source: random.Random) -> None:
    points, weights = draw_points(source.randint)
    distance, num_tasks = Fraction(source.randint(1, 4), 4), source.randint(1, 5)
    arguments = point_distances(points), weights, distance, num_tasks
    assert missed_probability_as_multiplied(*arguments) <= missed_probability(*arguments)


@EXHAUSTIVE
@given(RANDOM)
def test_the_law_of_the_closest_task(source: random.Random) -> None:
    family = draw_family(source.randint)
    distances = task_distances(family)
    for test_task in range(family.num_tasks):
        expected: dict[int, Fraction] = {}
        for first in range(family.num_tasks):
            for second in range(family.num_tasks):
                closest = closest_task(distances, test_task, {first, second})
                weight = family.prior[first] * family.prior[second]
                expected[closest] = expected.get(closest, Fraction(0)) + weight
        assert closest_task_law(distances, family.prior, test_task, 2) == expected


def test_the_rare_lever_is_missed_more_often_than_printed() -> None:
    family, num_tasks = rare_lever(38), 38
    missed = missed_probability(task_distances(family), family.prior, Fraction(1), num_tasks)
    delta = 0.0095
    assert closest_task_bound_as_printed(3, delta=delta, num_tasks=num_tasks) < 1
    assert missed > delta
    assert closest_task_bound(3, delta=delta, num_tasks=num_tasks) >= 1


# --- Bounds as functions ---


def test_sizes_and_cells() -> None:
    sizes = Sizes.of(doors(4))
    assert (sizes.horizon, sizes.num_states, sizes.num_actions, sizes.num_rewards) == (1, 1, 4, 2)
    assert sizes.table_size == 12
    assert sizes.leave_factor == 16
    assert num_cells(Fraction(1), 2) == 4
    assert num_cells(Fraction(1, 3), 1) == 4
    assert num_cells(Fraction(2, 5), 1) == 3
    noisy = noisy_doors(3, success=Fraction(3, 4), loyalty=Fraction(1, 2))
    assert rarest_visit(noisy) == 0.25


def test_the_leave_bound_falls_with_data_and_with_tasks() -> None:
    family = levers([Fraction(0), Fraction(1, 2)], [Fraction(1, 2)] * 2)
    sizes = [10**k for k in range(2, 7)]
    by_data = [
        leave_bound(family, delta=0.05, num_tasks=10**15, num_trajectories=k).data_term
        for k in sizes
    ]
    by_tasks = [
        leave_bound(family, delta=0.05, num_tasks=m, num_trajectories=1).task_term for m in sizes
    ]
    assert log_log_slope(sizes, by_data) == pytest.approx(-1 / 2)
    assert log_log_slope(sizes, by_tasks) == pytest.approx(-1 / 3)
    printed = leave_bound_as_printed(family, delta=0.05, num_tasks=100, num_trajectories=100)
    corrected = leave_bound(family, delta=0.05, num_tasks=100, num_trajectories=100)
    assert printed.value < corrected.value
    assert printed.factor == corrected.factor == 4
    assert str(corrected).startswith("4 (")


def test_the_concentration_bound_is_the_printed_one() -> None:
    sizes = Sizes(horizon=2, num_states=3, num_actions=2, num_rewards=2)
    bound = concentration_bound(sizes, delta=0.1, num_trajectories=1000, min_visitation=0.25)
    assert bound == pytest.approx(12 * ((2.302585093 + 3.583518938) / 250) ** 0.5)


def test_the_tail_step_fails_near_one_and_its_correction_does_not() -> None:
    assert hoeffding_step(0.5)[0] > hoeffding_step(0.5)[1]
    true, printed, corrected = hoeffding_step(1.0)
    assert true < printed
    assert true == pytest.approx(corrected)
