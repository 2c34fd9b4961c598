"""The closest training task, exactly (Appendix A.7.2, Lemmas 9 and 10).

All tasks are drawn from one finite prior, so the probability that m training tasks all miss a
neighbourhood of the test task is a finite sum, and so is the law of which task is closest.

Departures from the paper:

1. The event of Lemma 10 is about the smallest *distance*; the paper prints an argmin over tasks
   where it means a min over distances.
2. The sum over test tasks stays outside of the power m. The paper takes it inside, multiplying
   probabilities of events that share the test task (see `bounds`).
"""

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import TypeAlias

from idaq.theory.families import TabularFamily, task_distance
from idaq.theory.probabilities import ZERO, Number, total

Distances: TypeAlias = Sequence[Sequence[Fraction]]
"""All pairwise distances between the tasks, or points, that a prior is over."""


def task_distances(family: TabularFamily) -> Distances:
    """The L-infinity distances between all pairs of tasks."""
    return [[task_distance(mine, other) for other in family.tasks] for mine in family.tasks]


def point_distances(points: Sequence[Sequence[Fraction]]) -> Distances:
    """The L-infinity distances between all pairs of points."""
    return [[max(abs(x - y) for x, y in zip(p, q, strict=True)) for q in points] for p in points]


def closest_task(distances: Distances, test_task: int, training: Collection[int]) -> int:
    """The training task that is closest to the test task; ties go to the first."""
    return min(sorted(training), key=distances[test_task].__getitem__)


def closest_task_law(
    distances: Distances, prior: Sequence[Number], test_task: int, num_tasks: int
) -> dict[int, Number]:
    """The law of the closest of m i.i.d. training tasks; ties go to the first."""
    ranked = sorted(range(len(prior)), key=distances[test_task].__getitem__)
    law: dict[int, Number] = {}
    for rank, task in enumerate(ranked):
        not_nearer = total(prior[other] for other in ranked[rank:])
        missed = not_nearer**num_tasks
        if rank + 1 < len(ranked):
            missed -= total(prior[other] for other in ranked[rank + 1 :]) ** num_tasks
        if missed:
            law[task] = missed
    return law


def missed_probability(
    distances: Distances, prior: Sequence[Fraction], distance: Fraction, num_tasks: int
) -> Fraction:
    """P[every one of m training tasks is at least `distance` from the test task]."""
    return total(
        weight * _far_weight(row, prior, distance) ** num_tasks
        for weight, row in zip(prior, distances, strict=True)
    )


def missed_probability_as_multiplied(
    distances: Distances, prior: Sequence[Fraction], distance: Fraction, num_tasks: int
) -> Fraction:
    """What the paper's proof puts in its place: P[one task is that far] to the power m."""
    return missed_probability(distances, prior, distance, 1) ** num_tasks


def _far_weight(row: Sequence[Fraction], prior: Sequence[Fraction], distance: Fraction) -> Fraction:
    return sum((p for p, d in zip(prior, row, strict=True) if d >= distance), ZERO)
