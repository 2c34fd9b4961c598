"""The paper's theory as exact computations on finite task families (Section 3, Appendix A).

    >>> from idaq.theory import doors, enumerate_bamdp, best_value
    >>> value, policy = best_value(enumerate_bamdp(doors(3), num_episodes=3).mdp)
    >>> print(value)
    2

`run_checks` tests the paper's statements, `print_table` prints the outcomes, and `write_figures`
draws the main quantities; `idaq theory` does the same from the command line.
"""

from idaq.theory.bamdp import BeliefMdp, HyperState, enumerate_bamdp, online_value
from idaq.theory.checks import Check, Settings, check_names, is_as_expected, run_checks
from idaq.theory.closest import closest_task, closest_task_law, task_distances
from idaq.theory.collection import Collection, collect, leaving_probability
from idaq.theory.consistency import gaps_as_data_grows, worst_evaluation_gap
from idaq.theory.datasets import (
    Dataset,
    approximate_value,
    batch_actions,
    dataset_mdp,
    is_batch_constrained,
)
from idaq.theory.examples import (
    corridors,
    doors,
    generous_door,
    halving_levers,
    levers,
    noisy_doors,
    rare_lever,
    swapped_corridors,
    telling_rewards,
    wrong_doors,
)
from idaq.theory.families import Behaviour, TabularFamily, TabularTask, task_distance
from idaq.theory.figures import write_figures
from idaq.theory.leaving import leave_probability, worst_leave_probability
from idaq.theory.mdps import (
    LayeredMdp,
    Outcome,
    Policy,
    best_value,
    pair_visitation,
    policy_value,
    trajectory_law,
    visitation,
)
from idaq.theory.sampling import sample_dataset, sample_meta_dataset
from idaq.theory.table import print_table
from idaq.theory.thompson import LeaveLaw, adapt, expected_returns, optimal_returns
from idaq.theory.transformed import enumerate_transformed, mean_behaviour, update_belief

__all__ = [
    "Behaviour",
    "BeliefMdp",
    "Check",
    "Collection",
    "Dataset",
    "HyperState",
    "LayeredMdp",
    "LeaveLaw",
    "Outcome",
    "Policy",
    "Settings",
    "TabularFamily",
    "TabularTask",
    "adapt",
    "approximate_value",
    "batch_actions",
    "best_value",
    "check_names",
    "closest_task",
    "closest_task_law",
    "collect",
    "corridors",
    "dataset_mdp",
    "doors",
    "enumerate_bamdp",
    "enumerate_transformed",
    "expected_returns",
    "gaps_as_data_grows",
    "generous_door",
    "halving_levers",
    "is_as_expected",
    "is_batch_constrained",
    "leave_probability",
    "leaving_probability",
    "levers",
    "mean_behaviour",
    "noisy_doors",
    "online_value",
    "optimal_returns",
    "pair_visitation",
    "policy_value",
    "print_table",
    "rare_lever",
    "run_checks",
    "sample_dataset",
    "sample_meta_dataset",
    "swapped_corridors",
    "task_distance",
    "task_distances",
    "telling_rewards",
    "trajectory_law",
    "update_belief",
    "visitation",
    "worst_evaluation_gap",
    "worst_leave_probability",
    "write_figures",
    "wrong_doors",
]
