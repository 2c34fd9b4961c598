"""Offline against true policy evaluation as data grows (Lemmas 1 and 3, Theorem 2 iii).

For one dataset, `worst_evaluation_gap` is the largest |J_D - J| of any batch-constrained policy;
`gaps_as_data_grows` averages it over random datasets of growing size.

Departures from the paper:

1. In a transformed BAMDP the data is logged by many policies, one per task. Lemma 1 is about one
   policy; it applies because the data is distributed as that of the mean behaviour on hyper-states
   (`mean_behaviour` in `transformed`), which holds for the corrected law only.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from idaq.theory.bamdp import BeliefMdp
from idaq.theory.datasets import Dataset, dataset_mdp
from idaq.theory.mdps import LayeredMdp, deterministic_policies, policy_value
from idaq.theory.sampling import sample_meta_dataset


def worst_evaluation_gap(dataset: Dataset, mdp: LayeredMdp) -> Fraction:
    """The largest |J_D - J| of a batch-constrained policy.

    Both J's are affine in each state's action distribution, so the largest is attained by a
    deterministic policy. In states without data the policy takes its first defined action.
    """
    induced = dataset_mdp(dataset, mdp)
    actions = [
        seen or defined[:1]
        for seen, defined in zip(
            dataset.seen_actions(mdp.num_states), mdp.defined_actions, strict=True
        )
    ]
    return max(
        abs(policy_value(induced, policy) - policy_value(mdp, policy))
        for policy in deterministic_policies(actions)
    )


def gaps_as_data_grows(
    belief_mdp: BeliefMdp,
    sizes: Sequence[int],
    *,
    num_datasets: int,
    generator: np.random.Generator,
    gap: Callable[[Dataset, LayeredMdp], Fraction] = worst_evaluation_gap,
) -> list[float]:
    """The mean gap over random datasets of each size, logged with task-dependent policies."""
    means = []
    for size in sizes:
        gaps = [
            gap(sample_meta_dataset(belief_mdp, size, generator), belief_mdp.mdp)
            for _ in range(num_datasets)
        ]
        means.append(float(np.mean([float(value) for value in gaps])))
    return means


def log_log_slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent of a power law, by least squares on logarithms."""
    slope, _ = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(slope)
