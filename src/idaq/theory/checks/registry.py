"""The checks by name, in the order in which the paper makes its statements."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from idaq.errors import IdaqError
from idaq.theory.checks import beliefs, closest, lemmas, shift, thompson
from idaq.theory.checks.record import Check, Settings

CHECKS: Mapping[str, Callable[[Settings], Check]] = {
    "shift-exists": shift.shift_exists,
    "shift-as-printed": shift.shift_as_printed,
    "shift-exists-corridors": shift.shift_exists_corridors,
    "out-of-distribution-visits": shift.out_of_distribution_visits,
    "batch-reach-as-printed": shift.batch_reach_as_printed,
    "evaluation-gap": shift.evaluation_gap,
    "optimum-any-episodes": shift.optimum_any_episodes,
    "optimum-chain-as-printed": shift.optimum_chain_as_printed,
    "bamdp-value": beliefs.bamdp_value,
    "belief-update-as-printed": beliefs.belief_update_as_printed,
    "outcome-law-as-printed": beliefs.outcome_law_as_printed_check,
    "transformed-in-distribution": beliefs.transformed_in_distribution,
    "transformed-distributions": beliefs.transformed_distributions,
    "transformed-distributions-as-printed": beliefs.transformed_distributions_as_printed,
    "transformed-data-law": beliefs.transformed_data_law,
    "transformed-consistency": beliefs.transformed_consistency,
    "transformed-online-value-as-printed": beliefs.transformed_online_value_as_printed,
    "thompson-in-distribution": thompson.thompson_in_distribution,
    "thompson-keeps-hypothesis": thompson.thompson_keeps_hypothesis,
    "thompson-later-episodes-as-printed": thompson.thompson_later_episodes_as_printed,
    "leaving-as-printed": thompson.leaving_as_printed,
    "return-selection": thompson.return_selection,
    "adp-equals-induced-mdp": lemmas.adp_equals_induced_mdp,
    "simulation-offline": lemmas.simulation_offline,
    "concentration": lemmas.concentration,
    "concentration-tail-as-printed": lemmas.concentration_tail_as_printed,
    "concentration-visitation-as-printed": lemmas.concentration_visitation_as_printed,
    "leave-probability": lemmas.leave_probability_check,
    "leave-probability-next-state": lemmas.leave_probability_next_state,
    "leave-bound": closest.leave_bound_check,
    "leave-bound-as-printed": closest.leave_bound_as_printed_check,
    "leave-bound-doors": closest.leave_bound_doors,
    "visitation-offline": lemmas.visitation_offline,
    "simulation": lemmas.simulation_pair,
    "visitation": lemmas.visitation_pair,
    "pair-distance": closest.pair_distance,
    "pair-distance-cells-as-printed": closest.pair_distance_cells_as_printed,
    "closest-task": closest.closest_task,
    "closest-task-as-printed": closest.closest_task_as_printed,
    "closest-task-doors": closest.closest_task_doors,
}


def check_names() -> list[str]:
    """The names of all checks."""
    return list(CHECKS)


def run_checks(
    names: Sequence[str] | None = None,
    v_range: range = range(3, 11),
    *,
    num_families: int = 200,
    num_datasets: int = 400,
    seed: int = 0,
    on_start: Callable[[str], None] | None = None,
) -> list[Check]:
    """Run checks by name, all of them by default."""
    chosen = check_names() if names is None else list(names)
    for name in chosen:
        if name not in CHECKS:
            near = get_close_matches(name, CHECKS, n=3, cutoff=0.3)
            hint = f"Did you mean {' or '.join(near)}?" if near else "`idaq theory` shows them all."
            raise IdaqError(f"There is no check '{name}'.", hint)
    settings = Settings(
        v_range=v_range, num_families=num_families, num_datasets=num_datasets, seed=seed
    )
    results = []
    for name in chosen:
        if on_start is not None:
            on_start(name)
        results.append(CHECKS[name](settings))
    return results


def is_as_expected(check: Check) -> bool:
    """Whether a check came out as it should.

    A statement that is false as printed must fail, any other must hold or be vacuous.
    """
    return (check.holds is False) == check.name.endswith("-as-printed")
