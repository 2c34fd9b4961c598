"""Statistics over seeds, from raw returns.

The unit is the seed: a score is first averaged over a seed's tasks, and intervals are percentile
bootstraps of those per-seed means (10,000 resamples, seeded), as in the paper.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

NUM_RESAMPLES = 10_000
PROFILE_RESAMPLES = 2_000  # of a whole curve
BOOTSTRAP_SEED = 0

Floats = NDArray[np.floating]
FloatArray = NDArray[np.float64]
Statistic = Callable[..., FloatArray]


def per_seed_mean(values: Floats) -> FloatArray:
    """[seeds, tasks] to [seeds]."""
    means: FloatArray = np.asarray(values, np.float64).mean(axis=1)
    return means


def bootstrap_interval(per_seed: Floats) -> tuple[float, float]:
    """The 95% percentile bootstrap interval of the mean; one seed gives a point."""
    ((low, high),) = bootstrap_intervals(np.asarray(per_seed)[None])
    return float(low), float(high)


def bootstrap_intervals(rows: Floats) -> FloatArray:
    """The same for every row, [n, seeds] to [n, 2]; much quicker than one by one."""
    values = np.asarray(rows, np.float64)
    means = values.mean(axis=1)
    intervals = np.stack([means, means], axis=1)
    differ = (values != values[:, :1]).any(axis=1)
    if differ.any():
        result = stats.bootstrap(
            (values[differ],),
            np.mean,
            confidence_level=0.95,
            n_resamples=NUM_RESAMPLES,
            method="percentile",
            axis=1,
            rng=np.random.default_rng(BOOTSTRAP_SEED),
        )
        intervals[differ] = np.stack(result.confidence_interval, axis=1)
    return intervals


def normalised_score(returns: Floats, reference_return: float) -> FloatArray:
    """A seed's score: its return, averaged over tasks, divided by a reference return; [seeds].

    The reference is the mean return of successful episodes on the same tasks (`score`) or the
    dataset's mean return (`score_dataset`); see `idaq.runs.summary`.
    """
    return per_seed_mean(returns) / reference_return


def capped_score(returns: Floats, reference_return: float) -> FloatArray:
    """The same, at most 1 per seed, after averaging over tasks; [seeds]."""
    return np.minimum(normalised_score(returns, reference_return), 1.0)


# --- Over budgets ----------------------------------------------------------------------------
# A curve is [seeds, N]: the score if the budget had ended after 1, 2, ... N episodes.


def episodes_to(curves: Floats, goal: Floats, share: float) -> int | None:
    """After how many episodes a method has come that share of the way to a goal, if it has.

    The way leads from the curve's first point to the goal, both averaged over seeds, so that it
    does not matter whether returns are negative. `goal` is [seeds]. A curve that starts at the goal
    or beyond is there after one episode.
    """
    reached = _first_reached(curves, goal, share)
    return int(reached) if reached <= curves.shape[1] else None


def episodes_to_interval(curves: Floats, goal: Floats, share: float) -> tuple[float, float]:
    """Its 95% percentile bootstrap interval over seeds; never counts as N + 1."""
    num = len(goal)

    def statistic(places: FloatArray, axis: int = -1) -> FloatArray:
        seeds = places.astype(np.int64)  # resampled, [..., num]
        return _first_reached(curves[seeds], goal[seeds], share)

    if num == 1:
        value = float(_first_reached(curves, goal, share))
        return value, value
    low, high = _bootstrap([np.arange(num, dtype=np.float64)], statistic, NUM_RESAMPLES)
    return float(low), float(high)


def _first_reached(curves: Floats, goal: Floats, share: float) -> FloatArray:
    """[..., seeds, N] and [..., seeds] to [...]; N + 1 where it is not reached."""
    means = np.asarray(curves, np.float64).mean(axis=-2)
    start, aim = means[..., 0], np.asarray(goal, np.float64).mean(axis=-1)
    reached = means >= np.asarray(start + share * (aim - start))[..., None]
    ever = np.concatenate([reached, np.ones_like(reached[..., :1])], axis=-1)
    return np.asarray(1.0 + ever.argmax(axis=-1), np.float64)


# --- Over many task sets --------------------------------------------------------------------
# A method's scores are [sets, seeds]. Sets are strata: a resample draws seeds anew within each.


def interquartile_mean(scores: Floats) -> float:
    """The mean of the middle half of all runs: a quarter is cut off at either end."""
    return float(_trimmed(_table(scores).ravel()))


def interquartile_mean_interval(scores: Floats) -> tuple[float, float]:
    """Its 95% stratified percentile bootstrap interval; one seed gives a point."""

    def statistic(*sets: FloatArray, axis: int = -1) -> FloatArray:
        return _trimmed(np.concatenate(sets, axis=axis), axis)

    return _stratified_interval(list(_table(scores)), statistic)


def probability_of_improvement(scores: Floats, baseline: Floats) -> float:
    """The probability that a run beats one of the baseline on the same set, averaged over sets.

    A tie counts one half; per set it is the Mann-Whitney statistic over the number of pairs.
    """
    ours, theirs = _table(scores), _table(baseline)
    _check_same_sets(ours, theirs)
    pairs = ours.shape[1] * theirs.shape[1]
    statistics = stats.mannwhitneyu(ours, theirs, axis=1, method="asymptotic").statistic
    return float(np.mean(statistics / pairs))


def probability_of_improvement_interval(scores: Floats, baseline: Floats) -> tuple[float, float]:
    """Its 95% stratified percentile bootstrap interval."""
    ours, theirs = _table(scores), _table(baseline)
    _check_same_sets(ours, theirs)

    def statistic(*samples: FloatArray, axis: int = -1) -> FloatArray:
        per_set = [
            _share_of_wins(a, b)
            for a, b in zip(samples[: len(ours)], samples[len(ours) :], strict=True)
        ]
        mean: FloatArray = np.mean(per_set, axis=0)
        return mean

    return _stratified_interval([*ours, *theirs], statistic)


class Profile(NamedTuple):
    """The share of runs above each threshold, and its 95% interval; all [thresholds]."""

    thresholds: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray


def performance_profile(scores: Floats, thresholds: Floats) -> Profile:
    """The share of runs whose score is above a threshold, for each of the thresholds."""
    table, at = _table(scores), np.asarray(thresholds, np.float64)
    above = (table[:, None, :] > at[:, None]).astype(np.float64)  # [sets, thresholds, seeds]
    share = above.mean(axis=(0, 2))
    if table.shape[1] == 1:
        return Profile(at, share, share, share)

    def statistic(*sets: FloatArray, axis: int = -1) -> FloatArray:
        mean: FloatArray = np.mean([each.mean(axis=axis) for each in sets], axis=0)
        return mean

    low, high = _bootstrap(list(above), statistic, PROFILE_RESAMPLES)
    return Profile(at, share, np.asarray(low), np.asarray(high))


def _table(scores: Floats) -> FloatArray:
    values = np.asarray(scores, np.float64)
    if values.ndim != 2 or values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"scores must be finite and [sets, seeds], not {values.shape}")
    return values


def _check_same_sets(ours: Floats, theirs: Floats) -> None:
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} sets cannot be compared with {len(theirs)}")


def _trimmed(values: FloatArray, axis: int = -1) -> FloatArray:
    mean: FloatArray = stats.trim_mean(values, 0.25, axis=axis)
    return mean


def _share_of_wins(ours: FloatArray, theirs: FloatArray) -> FloatArray:
    """Over all pairs along the last axes; a tie is half a win."""
    difference = ours[..., :, None] - theirs[..., None, :]
    share: FloatArray = (np.sign(difference) / 2 + 0.5).mean(axis=(-1, -2))
    return share


def _stratified_interval(samples: list[FloatArray], statistic: Statistic) -> tuple[float, float]:
    if all(np.all(sample == sample[0]) for sample in samples):  # nothing to resample
        value = float(statistic(*samples, axis=-1))
        return value, value
    low, high = _bootstrap(samples, statistic, NUM_RESAMPLES)
    return float(low), float(high)


def _bootstrap(
    samples: list[FloatArray], statistic: Statistic, num: int
) -> tuple[FloatArray, FloatArray]:
    """SciPy resamples each sample by itself, which is what makes it stratified.

    It refuses samples of one value, so such a value is given twice, which draws the same.
    """
    at_least_two = [np.repeat(s, 2, axis=-1) if s.shape[-1] == 1 else s for s in samples]
    result = stats.bootstrap(
        at_least_two,
        statistic,
        confidence_level=0.95,
        n_resamples=num,
        batch=500,
        method="percentile",
        vectorized=True,
        axis=-1,
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    )
    low, high = result.confidence_interval
    return low, high
