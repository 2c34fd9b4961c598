"""Checks of the closest training task and of the two-term leave bound (Appendix A.7)."""

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import count, islice
from math import ceil

from idaq.theory.bounds import (
    Sizes,
    closest_task_bound,
    closest_task_bound_as_printed,
    leave_bound,
    leave_bound_as_printed,
    missed_distance_bound,
    pair_distance_bound,
)
from idaq.theory.checks.record import Check, Settings, judge, number
from idaq.theory.closest import (
    missed_probability,
    missed_probability_as_multiplied,
    point_distances,
    task_distances,
)
from idaq.theory.examples import doors, halving_levers, rare_lever
from idaq.theory.lemmas import Inequality
from idaq.theory.probabilities import ONE, mean
from idaq.theory.random_families import Choose, draw_points
from idaq.theory.thompson import LeaveLaw

DELTA = 0.05


# --- Two random points ---


def pair_distance_case(choose: Choose) -> Inequality:
    """Lemma 9 for a random finite distribution and a random distance."""
    points, weights = draw_points(choose)
    distance = Fraction(choose(1, 4), 4)
    left = missed_probability(point_distances(points), weights, distance, 1)
    return Inequality(left, pair_distance_bound(distance, len(points[0])), trivial=ONE)


def _cases(settings: Settings, case: Callable[[Choose], Inequality]) -> Iterator[Inequality]:
    """`num_families` random cases in which the bound says something."""
    choose = random.Random(settings.seed).randint
    cases = (case(choose) for _ in count())
    return islice((each for each in cases if not each.is_vacuous), settings.num_families)


def pair_distance(settings: Settings) -> Check:
    """Lemma 9."""
    holds, vacuous, computed = judge(_cases(settings, pair_distance_case))
    return Check(
        name="pair-distance",
        statement="Lemma 9: two i.i.d. points of the unit cube are often close",
        paper="P[max |X_i - Y_i| >= eps] <= 1 - (eps / 2)^n",
        computed=computed,
        holds=holds,
        vacuous=vacuous,
        note="Exactly, for finite distributions with atoms on the cells' borders.",
    )


def pair_distance_cells_as_printed(_: Settings) -> Check:
    """The proof's count of cells, when 1/eps is an integer."""
    distance = ONE
    points = [(Fraction(0),), (Fraction(1),)]
    weights = [Fraction(1, 2)] * 2
    probability = missed_probability(point_distances(points), weights, distance, 1)
    printed = 1 - Fraction(1, ceil(1 / distance))
    lemma = pair_distance_bound(distance, 1)
    return Check(
        name="pair-distance-cells-as-printed",
        statement="Lemma 9, proof: ceil(1/eps)^n cells cover the cube, borders shared out at will",
        paper=f"P <= 1 - 1/|C| = {printed} for n = 1, eps = 1",
        computed=f"{probability} for a fair coin",
        holds=probability <= printed,
        note=f"A cell must not own both of its borders, so floor(1/eps) + 1 cells are needed. The "
        f"lemma survives, here with equality: {lemma}.",
    )


# --- The closest of many tasks ---


def missed_distance_case(choose: Choose) -> Inequality:
    """The corrected Lemma 10 for a random prior, a random distance and a number of tasks."""
    points, weights = draw_points(choose)
    distance = Fraction(choose(1, 4), 4)
    num_tasks = choose(1, 40)
    left = missed_probability(point_distances(points), weights, distance, num_tasks)
    right = missed_distance_bound(distance, len(points[0]), num_tasks)
    return Inequality(left, right, trivial=ONE)


def closest_task(settings: Settings) -> Check:
    """Lemma 10, corrected."""
    holds, vacuous, computed = judge(_cases(settings, missed_distance_case))
    size = Sizes.of(rare_lever(1)).table_size
    exceeded, bounds = [], []
    for num_tasks in (100, 1_000):
        family = rare_lever(num_tasks)
        bounds.append(closest_task_bound(size, delta=DELTA, num_tasks=num_tasks))
        distances, within = task_distances(family), Fraction(bounds[-1])
        exceeded.append(missed_probability(distances, family.prior, within, num_tasks))
    return Check(
        name="closest-task",
        statement="Lemma 10 corrected: the closest of m training tasks is within "
        "2 (1 / (e m delta))^(1/n) of the test task with probability 1 - delta",
        paper="2 (log(1/delta) / m)^(1/n)",
        computed=f"{computed}; a lever that is rare, n = {size}, m = 100 and 1,000: distance "
        f"{number(bounds[0])} and {number(bounds[1])} exceeded with probability "
        f"{number(exceeded[0])} and {number(exceeded[1])}, delta = {DELTA:g}",
        holds=holds and all(p <= DELTA for p in exceeded),
        vacuous=vacuous,
        note="The distance still goes to 0 as m grows, so Theorem 3 keeps its second term; its "
        "confidence costs 1/delta, not log(1/delta).",
    )


def _smallest_violation(bound: Callable[[float, int], float]) -> tuple[int, Fraction, float]:
    """The fewest tasks for which the rare lever is missed too often: (m, P[missed], bound).

    Two levers are at distance 1, so a bound below 1 claims that the test lever was trained on.
    """
    for num_tasks in count(1):
        rare = 1 / (num_tasks + 1)
        missed = rare * (1 - rare) ** num_tasks + (1 - rare) * rare**num_tasks
        if bound(missed * 0.999, num_tasks) < 1:
            break
    family = rare_lever(num_tasks)
    probability = missed_probability(task_distances(family), family.prior, ONE, num_tasks)
    return num_tasks, probability, bound(float(probability) * 0.999, num_tasks)


def closest_task_as_printed(_: Settings) -> Check:
    """Lemma 10 as printed."""
    size = Sizes.of(rare_lever(1)).table_size
    num_tasks, missed, bound = _smallest_violation(
        lambda delta, m: closest_task_bound_as_printed(size, delta=delta, num_tasks=m)
    )
    delta = missed * Fraction(999, 1000)
    few, many = rare_lever(3), rare_lever(200)
    exact = missed_probability(task_distances(few), few.prior, ONE, 2)
    multiplied = missed_probability_as_multiplied(task_distances(few), few.prior, ONE, 2)
    often = missed_probability(task_distances(many), many.prior, ONE, 200)
    farther = closest_task_bound_as_printed(size, delta=1e-6, num_tasks=200)
    return Check(
        name="closest-task-as-printed",
        statement="Lemma 10: the closest of m training tasks is within "
        "2 (log(1/delta) / m)^(1/n) of the test task with probability 1 - delta",
        paper=f"farther than {bound:.4f} with probability at most delta = {float(delta):.6f}",
        computed=f"farther, at distance 1, with probability {float(missed):.6f}",
        holds=missed <= delta,
        note=f"Two levers, one of them once in {num_tasks + 1} tasks, and m = {num_tasks}, the "
        f"smallest m for these two; with m = 200 and delta = 1e-6, farther than {number(farther)} "
        f"with probability {number(often)}. The proof multiplies probabilities of events that "
        f"share the test task: with one lever once in 4 tasks and m = 2 it has {multiplied} for "
        f"{exact}.",
    )


def closest_task_doors(settings: Settings) -> Check:
    """The corrected bound on the example."""
    num_tasks = 1_000
    bounds = [
        closest_task_bound(Sizes.of(doors(v)).table_size, delta=DELTA, num_tasks=num_tasks)
        for v in settings.v_range
    ]
    missed = [
        missed_probability(task_distances(doors(v)), doors(v).prior, ONE, num_tasks)
        for v in settings.v_range
    ]
    vacuous = min(bounds) >= 1
    return Check(
        name="closest-task-doors",
        statement="Lemma 10 corrected, on the example with v doors and 1,000 training tasks",
        paper=f"distance at most {', '.join(map(number, bounds))} for {settings.v_text}",
        computed=f"test task missed with probability at most {number(max(missed))}",
        holds=None if vacuous else max(missed) <= DELTA,
        vacuous=vacuous,
        note="Distances are at most 1. With n = 3 v numbers in a task's tables, the bound needs "
        "8^v / (e delta) tasks to say anything.",
    )


# --- The two-term leave bound ---


def leave_bound_check(_: Settings) -> Check:
    """Lemma 5, corrected, where it is below 1."""
    bounds, exceeded, averages = [], [], []
    for num_tasks, num_trajectories in ((10**5, 10**4), (10**6, 10**5), (10**8, 10**6)):
        rare, halving = rare_lever(num_tasks), halving_levers(8)
        sizes = {"num_tasks": num_tasks, "num_trajectories": num_trajectories}
        bounds.append(leave_bound(rare, delta=DELTA, **sizes))
        for family in (rare, halving):
            law = LeaveLaw(family, "reward").approximate(**sizes)
            averages.append(sum(float(value) * p for value, p in law.items()))
            exceeded.append(sum(p for value, p in law.items() if value > bounds[-1].value))
    vacuous = min(bound.value for bound in bounds) >= 1
    return Check(
        name="leave-bound",
        statement="Lemma 5 corrected: the closest task's hypothesis leaves its data with "
        "probability at most the sum of a term in K and a term in m",
        paper=f"at most {'; '.join(map(str, bounds))}; with probability "
        f"1 - 2 delta = {1 - 2 * DELTA:g}",
        computed=f"exceeded with probability at most {number(max(exceeded))}; mean p_out at most "
        f"{number(max(averages))}",
        holds=None if vacuous else max(exceeded) <= 2 * DELTA,
        vacuous=vacuous,
        note="One lever, as rare as can be or halving; m = 1e5, 1e6, 1e8 tasks, K = 1e4, 1e5, 1e6 "
        "trajectories; the worst batch-constrained policy; leaving judged on (s, a, r), as the "
        "lemma does.",
    )


def leave_bound_as_printed_check(_: Settings) -> Check:
    """Lemma 5 as printed, on the rare lever."""
    num_trajectories = 10**6
    levers = rare_lever(1)
    num_tasks, missed, bound = _smallest_violation(
        lambda delta, m: (
            leave_bound_as_printed(
                levers, delta=delta, num_tasks=m, num_trajectories=num_trajectories
            ).value
        )
    )
    law = LeaveLaw(rare_lever(num_tasks), "reward").exact(
        num_tasks=num_tasks, num_trajectories=num_trajectories
    )
    exceeded = sum(p for value, p in law.items() if value > bound)
    delta = missed * Fraction(999, 1000)
    many = {"num_tasks": 50_000, "num_trajectories": num_trajectories}
    farther = leave_bound_as_printed(rare_lever(50_000), delta=1e-9, **many).value
    often = LeaveLaw(rare_lever(50_000), "reward").approximate(**many)[ONE]
    return Check(
        name="leave-bound-as-printed",
        statement="Lemma 5: the two-term leave bound, with its printed second term",
        paper=f"more than {bound:.6f} with probability at most delta = {float(delta):.8f}",
        computed=f"p_out = 1 with probability {float(exceeded):.8f}",
        holds=exceeded <= delta,
        note=f"Two levers, one of them once in {num_tasks + 1} tasks, m = {num_tasks}, "
        f"K = {num_trajectories:,}; with m = 50,000 and delta = 1e-9, more than {number(farther)} "
        f"with probability {number(often)}. The lemma also forgets to say with what probability "
        "it holds, and that its two parts need delta each.",
    )


def leave_bound_doors(settings: Settings) -> Check:
    """The corrected bound on the example."""
    sizes = {"num_tasks": 1_000, "num_trajectories": 1_000}
    bounds, expected = [], []
    for v in settings.v_range:
        family = doors(v)
        bounds.append(leave_bound(family, delta=DELTA, **sizes).value)
        expected.append(mean(LeaveLaw(family).exact(**sizes)))
    vacuous = min(bounds) >= 1
    return Check(
        name="leave-bound-doors",
        statement="Lemma 5 corrected, on the example with v doors, 1,000 tasks and trajectories",
        paper=f"at most {', '.join(map(number, bounds))} for {settings.v_text}",
        computed=f"expected p_out at most {number(max(expected))}",
        holds=None if vacuous else all(p <= b for p, b in zip(expected, bounds, strict=True)),
        vacuous=vacuous,
        note="A probability is at most 1: the bound says nothing here, and the truth is far below.",
    )
