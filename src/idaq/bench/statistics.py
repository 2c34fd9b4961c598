"""Statistics over seeds, from raw returns.

The unit is the seed: a score is first averaged over a seed's tasks, and intervals are percentile
bootstraps of those per-seed means (10,000 resamples, seeded), as in the paper.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

NUM_RESAMPLES = 10_000
BOOTSTRAP_SEED = 0

Floats = NDArray[np.floating]


def per_seed_mean(values: Floats) -> NDArray[np.float64]:
    """[seeds, tasks] to [seeds]."""
    means: NDArray[np.float64] = np.asarray(values, np.float64).mean(axis=1)
    return means


def bootstrap_interval(per_seed: Floats) -> tuple[float, float]:
    """The 95% percentile bootstrap interval of the mean; one seed gives a point."""
    values = np.asarray(per_seed, np.float64)
    if len(values) == 1 or np.all(values == values[0]):
        return float(values.mean()), float(values.mean())
    result = stats.bootstrap(
        (values,),
        np.mean,
        confidence_level=0.95,
        n_resamples=NUM_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    )
    low, high = result.confidence_interval
    return float(low), float(high)


def normalised_score(returns: Floats, reference_return: float) -> NDArray[np.float64]:
    """A seed's score: its return, averaged over tasks, over a reference return; [seeds].

    The reference is the mean return of successful expert episodes on the same tasks (`score`) or
    the dataset's mean return (`score_dataset`).
    """
    return per_seed_mean(returns) / reference_return


def capped_score(returns: Floats, reference_return: float) -> NDArray[np.float64]:
    """The same, at most 1 per seed, after averaging over tasks; [seeds]."""
    return np.minimum(normalised_score(returns, reference_return), 1.0)
