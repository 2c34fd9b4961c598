"""Exact finite distributions: mappings from outcomes to `Fraction`s that sum to one.

The paper's claims about finite families (Section 3, Appendix A) are mostly equalities, so
probabilities here are rational numbers and every comparison is exact. Outcomes of probability
zero are never stored: the keys of a distribution are its support.
"""

from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from math import comb
from typing import TypeAlias, TypeVar

T = TypeVar("T", bound=Hashable)
Number = TypeVar("Number", Fraction, float)

Distribution: TypeAlias = Mapping[T, Fraction]

ZERO = Fraction(0)
ONE = Fraction(1)


def total(numbers: Iterable[Number]) -> Number:
    """The sum of one or more numbers of one kind."""
    first, *rest = numbers
    for number in rest:
        first += number
    return first


def from_weights(weights: Mapping[T, Fraction] | Mapping[T, int]) -> dict[T, Fraction]:
    """Normalise non-negative weights, dropping those that are zero."""
    whole = Fraction(sum(weights.values()))
    if whole <= 0 or any(weight < 0 for weight in weights.values()):
        raise ValueError(f"weights must be non-negative with a positive sum, got {dict(weights)}")
    return {outcome: weight / whole for outcome, weight in weights.items() if weight}


def point_mass(outcome: T) -> dict[T, Fraction]:
    """The distribution that puts everything on one outcome."""
    return {outcome: ONE}


def uniform(outcomes: Iterable[T]) -> dict[T, Fraction]:
    """The uniform distribution over distinct outcomes."""
    return from_weights(dict.fromkeys(outcomes, 1))


def mean(distribution: Distribution[Fraction]) -> Fraction:
    """The expectation of a distribution over numbers."""
    return sum((value * p for value, p in distribution.items()), ZERO)


def l1_distance(first: Distribution[T], second: Distribution[T]) -> Fraction:
    """The L1 distance; a missing outcome has probability zero."""
    outcomes = first.keys() | second.keys()
    return sum((abs(first.get(x, ZERO) - second.get(x, ZERO)) for x in outcomes), ZERO)


def max_distance(first: Distribution[T], second: Distribution[T]) -> Fraction:
    """The L-infinity distance; a missing outcome has probability zero."""
    outcomes = first.keys() | second.keys()
    return max((abs(first.get(x, ZERO) - second.get(x, ZERO)) for x in outcomes), default=ZERO)


def rate_is_at_most(
    rate: float, violations: int, trials: int, *, confidence: float = 0.999
) -> bool:
    """Whether `violations` in `trials` rule out a violation rate above `rate`.

    The exact binomial test: a rate of `rate` or more would show so few violations with
    probability at most `1 - confidence`.
    """
    so_few = sum(
        comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(violations + 1)
    )
    return so_few <= 1 - confidence
