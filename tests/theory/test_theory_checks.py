"""The named checks: what they say, and that broken variants make them fail."""

from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction

import pytest

from idaq.theory import Check, check_names, enumerate_bamdp, is_as_expected, run_checks
from idaq.theory.checks import Settings, beliefs, lemmas, thompson
from idaq.theory.checks.record import judge
from idaq.theory.checks.shift import first_line, third_line
from idaq.theory.datasets import Dataset, dataset_mdp
from idaq.theory.families import Behaviour, TabularFamily
from idaq.theory.lemmas import Inequality
from idaq.theory.mdps import LayeredMdp, deterministic_policies, policy_value

SMALL = Settings(v_range=range(3, 6), num_families=40, num_datasets=150)


@pytest.fixture(scope="module")
def results() -> dict[str, Check]:
    return {check.name: check for check in run_checks()}


def test_every_check_comes_out_as_it_should(results: dict[str, Check]) -> None:
    assert [name for name, check in results.items() if not is_as_expected(check)] == []
    assert list(results) == check_names()


def test_vacuous_bounds_claim_nothing(results: dict[str, Check]) -> None:
    vacuous = {name for name, check in results.items() if check.vacuous}
    assert vacuous == {"leave-bound-doors", "closest-task-doors"}
    assert all((check.holds is None) == check.vacuous for check in results.values())


def test_every_check_has_the_documented_fields(results: dict[str, Check]) -> None:
    names = ["name", "statement", "paper", "computed", "holds", "vacuous", "note"]
    assert [field.name for field in fields(Check)] == names
    for check in results.values():
        assert list(check.as_dict()) == names
        assert check.statement
        assert check.paper
        assert check.computed


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shift-exists", "1 against 1/3, 1/4, 1/5, 1/6, 1/7, 1/8, 1/9, 1/10 for v = 3..10"),
        ("evaluation-gap", "least gap 1, 3/2, 2, 5/2, 3, 7/2, 4, 9/2"),
        ("out-of-distribution-visits", "at least 2/3, 3/4, 4/5, 5/6, 6/7, 7/8, 8/9, 9/10"),
        ("transformed-distributions-as-printed", "1 in the data against 1/3, 1/4"),
        ("thompson-later-episodes-as-printed", "p_out = 1/2"),
        ("optimum-chain-as-printed", "equal for N = 3 only"),
    ],
)
def test_numbers(results: dict[str, Check], name: str, expected: str) -> None:
    assert expected in results[name].computed


def test_every_false_statement_has_a_corrected_one(results: dict[str, Check]) -> None:
    corrected = {
        "shift-as-printed": "shift-exists",
        "batch-reach-as-printed": "transformed-in-distribution",
        "optimum-chain-as-printed": "optimum-any-episodes",
        "belief-update-as-printed": "bamdp-value",
        "outcome-law-as-printed": "bamdp-value",
        "transformed-distributions-as-printed": "transformed-distributions",
        "transformed-online-value-as-printed": "transformed-consistency",
        "thompson-later-episodes-as-printed": "thompson-keeps-hypothesis",
        "leaving-as-printed": "leave-probability-next-state",
        "concentration-tail-as-printed": "concentration",
        "concentration-visitation-as-printed": "concentration",
        "leave-bound-as-printed": "leave-bound",
        "pair-distance-cells-as-printed": "pair-distance",
        "closest-task-as-printed": "closest-task",
    }
    assert set(corrected) == {name for name, check in results.items() if check.holds is False}
    assert all(results[name].holds for name in corrected.values())


def test_expectations_follow_the_name() -> None:
    def check(name: str, holds: bool | None) -> Check:
        return Check(name=name, statement="s", paper="p", computed="c", holds=holds)

    assert is_as_expected(check("gap", True))
    assert is_as_expected(check("gap", None))
    assert not is_as_expected(check("gap", False))
    assert is_as_expected(check("gap-as-printed", False))
    assert not is_as_expected(check("gap-as-printed", True))


def test_names_are_checked() -> None:
    with pytest.raises(
        ValueError, match=r"There is no check 'shift-exist'. Did you mean shift-exists"
    ):
        run_checks(["shift-exist"])


def test_other_seeds_and_ranges_come_out_the_same() -> None:
    for check in run_checks(None, range(4, 6), num_families=30, num_datasets=150, seed=7):
        assert is_as_expected(check), check


def test_judging_counts_only_informative_cases() -> None:
    def case(left: int, right: int) -> Inequality:
        return Inequality(Fraction(left), Fraction(right), trivial=Fraction(10))

    assert judge([case(1, 2), case(30, 20)])[:2] == (True, False)
    assert judge([case(3, 2)])[:2] == (False, False)
    assert judge([case(1, 20)])[:2] == (None, True)


@pytest.mark.parametrize("v", range(3, 8))
def test_the_proofs_expressions_agree_for_as_many_episodes_as_doors(v: int) -> None:
    assert first_line(v, v) == third_line(v, v) == Fraction(v + 1, 2)


# --- Broken variants ---


def always_the_last_action(family: TabularFamily) -> TabularFamily:
    """Data that a policy outside of the belief logged."""
    policy = [{family.num_actions - 1: Fraction(1)}] * family.num_states
    return family.logged_by(*[policy] * family.num_tasks)


def one_behaviour_fewer(family: TabularFamily) -> TabularFamily:
    """Data in which the first task was always logged by the first of its behaviours."""
    first = (Behaviour(Fraction(1), family.behaviours[0][0].policy),)
    rest = family.behaviours[1:]
    return TabularFamily(
        family.layers,
        family.num_actions,
        family.reward_values,
        family.tasks,
        family.prior,
        (first, *rest),
    )


@pytest.mark.parametrize("logged", [always_the_last_action, one_behaviour_fewer])
def test_a_behaviour_outside_of_the_belief_fails_the_check(
    logged: Callable[[TabularFamily], TabularFamily],
) -> None:
    assert beliefs.transformed_in_distribution(SMALL).holds
    assert beliefs.transformed_in_distribution(SMALL, logged=logged).holds is False


def gap_of_any_policy(dataset: Dataset, mdp: LayeredMdp) -> Fraction:
    """The largest gap when policies may leave the data, whose value there is taken to be zero."""
    induced = dataset_mdp(dataset, mdp)
    return max(
        abs(policy_value(induced, policy) - policy_value(mdp, policy))
        for policy in deterministic_policies(mdp.defined_actions)
    )


def test_policies_that_are_not_batch_constrained_fail_the_concentration_check() -> None:
    assert lemmas.concentration(SMALL).holds
    assert lemmas.concentration(SMALL, gap=gap_of_any_policy).holds is False


def test_the_untransformed_bamdp_fails_the_consistency_check() -> None:
    assert beliefs.transformed_consistency(SMALL).holds
    broken = beliefs.transformed_consistency(SMALL, enumerate_mdp=enumerate_bamdp)
    assert broken.holds is False


def test_judging_on_rewards_alone_fails_the_induction_check() -> None:
    assert thompson.thompson_keeps_hypothesis(SMALL).holds
    assert thompson.thompson_keeps_hypothesis(SMALL, judged_on="reward").holds is False
