"""Checks of the BAMDP and of the transformed BAMDP: Appendix A.1.3, Theorem 2."""

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from idaq.theory.bamdp import (
    BeliefMdp,
    HyperState,
    belief_after_as_printed,
    enumerate_bamdp,
    online_value,
    product_of_marginals,
)
from idaq.theory.checks.record import Check, Settings, listed, number
from idaq.theory.checks.shift import doors_data
from idaq.theory.collection import collect
from idaq.theory.consistency import gaps_as_data_grows, log_log_slope, worst_evaluation_gap
from idaq.theory.datasets import Dataset
from idaq.theory.examples import doors, noisy_doors, telling_rewards
from idaq.theory.families import TabularFamily
from idaq.theory.histories import (
    confinement,
    history_probability,
    logged_histories,
    logged_outcome_laws,
)
from idaq.theory.mdps import LayeredMdp, Outcome, best_value, policy_value
from idaq.theory.probabilities import ONE, ZERO
from idaq.theory.random_families import draw_num_episodes, draw_policy
from idaq.theory.transformed import (
    enumerate_transformed,
    mean_behaviour,
    outcome_law_as_printed,
    prior_belief,
    update_belief,
)

# --- The BAMDP ---


def bamdp_value(settings: Settings) -> Check:
    """J in the belief MDP equals the mean return over tasks, for any meta-policy."""
    unequal = 0
    for family, choose in settings.families():
        bamdp = enumerate_bamdp(family, draw_num_episodes(choose, family))
        everything = [range(family.num_actions)] * len(bamdp.hyper_states)
        policy = draw_policy(choose, everything)
        unequal += policy_value(bamdp.mdp, policy) != online_value(bamdp, policy)
    return Check(
        name="bamdp-value",
        statement="Appendix A.1.3: J of a meta-policy in the BAMDP is its mean return over tasks",
        paper="equal",
        computed=f"{unequal} differences in {settings.num_families} random families",
        holds=unequal == 0,
        note="With the pointwise belief update and the joint law of (r, s').",
    )


def belief_update_as_printed(_: Settings) -> Check:
    """The printed update never moves the belief."""
    family = doors(2)
    likelihoods = [mdp.reward_laws[0][0].get(ONE, ZERO) for mdp in family.mdps]
    printed = belief_after_as_printed(family.prior, likelihoods)
    weights = [b * p for b, p in zip(family.prior, likelihoods, strict=True)]
    posterior = [weight / sum(weights) for weight in weights]
    return Check(
        name="belief-update-as-printed",
        statement="Appendix A.1.3: the belief update multiplies by the expected likelihood",
        paper="the posterior",
        computed=f"after finding the reward behind the first of two doors: "
        f"({', '.join(map(str, printed or ()))})",
        holds=printed == tuple(posterior),
        note=f"The expectation is one number for all tasks and normalises away; the posterior is "
        f"({', '.join(map(str, posterior))}).",
    )


def outcome_law_as_printed_check(_: Settings) -> Check:
    """The product of the marginal reward and transition laws is not the belief's law."""
    family = telling_rewards()
    bamdp = enumerate_bamdp(family, 1)
    joint = bamdp.outcome_law(0, 0)
    printed = product_of_marginals(joint)
    impossible = sum((p for outcome, p in printed.items() if outcome not in joint), ZERO)
    seen = Outcome(ONE, 2)
    return Check(
        name="outcome-law-as-printed",
        statement="Appendix A.1.4: under a belief, (r, s') has the law R+(r) P+(s')",
        paper="the law met online",
        computed=f"P(r = 1, s' = 2) = {printed[seen]}, online {joint[seen]}",
        holds=printed == joint,
        note=f"Two tasks, one action, reward and next state telling of each other; the product "
        f"gives {impossible} to outcomes that no task has. The mixture E_b[R P] is right.",
    )


# --- The transformed BAMDP ---


def _doors_and_families(settings: Settings) -> Iterator[BeliefMdp]:
    for v in settings.v_range:
        yield enumerate_transformed(doors(v), min(v, 3))
    for family, choose in settings.families():
        yield enumerate_transformed(family, draw_num_episodes(choose, family))


def transformed_in_distribution(
    settings: Settings, *, logged: Callable[[TabularFamily], TabularFamily] = lambda family: family
) -> Check:
    """Theorem 2 (i). `logged` gives the family that the data really comes from."""
    feasible = unsupported = infeasible = 0
    for transformed in _doors_and_families(settings):
        found = confinement(transformed, logged(transformed.family))
        feasible += found.feasible
        unsupported += found.unsupported
        infeasible += found.infeasible_histories
    online = [_chance_of_feasible_update(doors(v)) for v in settings.v_range]
    return Check(
        name="transformed-in-distribution",
        statement="Theorem 2 (i): feasible belief updates lead to hyper-states of the data only",
        paper="none outside",
        computed=f"{unsupported} of {feasible} hyper-states outside of the data, {infeasible} "
        f"infeasible histories in it ({settings.v_text} and {settings.num_families} families)",
        holds=unsupported == infeasible == 0,
        note="Step-by-step beliefs against Bayes' rule on whole histories. Whether an update is "
        "feasible is up to the test task: behind a first door it is with probability "
        f"{listed(online)}.",
    )


def _chance_of_feasible_update(family: TabularFamily) -> Fraction:
    """The probability that the first action's outcome in a new task can update the belief."""
    start = HyperState(0, prior_belief(family))
    law = outcome_law_as_printed(family, start, 0)
    return sum((p for o, p in law.items() if update_belief(family, start, 0, o) is not None), ZERO)


def transformed_distributions(settings: Settings) -> Check:
    """Theorem 2 (ii) with the belief after the action."""
    compared = unequal = 0
    for transformed in _doors_and_families(settings):
        data = collect(transformed)
        for step, layer in enumerate(transformed.mdp.layers):
            logged = logged_outcome_laws(transformed.family, step)
            for hyper_state in layer:
                for action in transformed.mdp.defined_actions[hyper_state]:
                    law = transformed.outcome_law(hyper_state, action)
                    from_histories = logged[transformed.hyper_states[hyper_state]][action]
                    compared += 1
                    unequal += not law == data.outcome_law(hyper_state, action) == from_histories
    return Check(
        name="transformed-distributions",
        statement="Theorem 2 (ii): in the transformed BAMDP, data and experience have one law",
        paper="equal",
        computed=f"{unequal} differences in {compared} pairs (hyper-state, action)",
        holds=unequal == 0,
        note="Reward and transition under the belief after the action, and mu(a|s) in the data.",
    )


def transformed_distributions_as_printed(settings: Settings) -> Check:
    """Theorem 2 (ii) with the printed law, under the belief before the action."""
    offline, printed = [], []
    for v in (2, *settings.v_range):
        transformed = enumerate_transformed(doors(v), 1)
        win = Outcome(ONE, 0)
        offline.append(collect(transformed).outcome_law(0, 0)[win])
        start = transformed.hyper_states[0]
        printed.append(outcome_law_as_printed(transformed.family, start, 0)[win])
    return Check(
        name="transformed-distributions-as-printed",
        statement="Theorem 2 (ii), reward and transition under the belief before the action",
        paper="equal",
        computed=f"P(r = 1): {listed(offline[1:])} in the data against {listed(printed[1:])} "
        f"for {settings.v_text}",
        holds=offline == printed,
        note=f"Two doors suffice: {offline[0]} against {printed[0]}. Without mu(a|s) in the data's "
        "law both sides agree here, but then Theorem 1 loses its example.",
    )


def transformed_data_law(settings: Settings) -> Check:
    """The premise of Theorem 2 (iii): the data is that of one policy on hyper-states."""
    compared = unequal = 0
    for transformed in _doors_and_families(settings):
        family = transformed.family
        policy = mean_behaviour(transformed)
        histories = logged_histories(family, transformed.mdp.horizon)
        for history, likelihoods in histories.items():
            weights = zip(family.hypotheses, likelihoods, strict=True)
            probability = sum((h.prior * p for h, p in weights), ZERO)
            compared += 1
            unequal += probability != history_probability(transformed, policy, history)
    return Check(
        name="transformed-data-law",
        statement="Theorem 2 (iii), premise: logging with [mu] is running one policy, the mean "
        "behaviour, in the transformed BAMDP",
        paper="assumed",
        computed=f"{unequal} differences in {compared} histories",
        holds=unequal == 0,
        note="This is what lets Lemma 1, which is about one behaviour policy, be used at all.",
    )


def transformed_consistency(
    settings: Settings,
    *,
    enumerate_mdp: Callable[[TabularFamily, int], BeliefMdp] = enumerate_transformed,
    gap: Callable[[Dataset, LayeredMdp], Fraction] = worst_evaluation_gap,
) -> Check:
    """Theorem 2 (iii). The MDP and the gap are parameters so that tests can break them."""
    family = noisy_doors(2, success=Fraction(3, 4), loyalty=Fraction(2, 3))
    sizes = (100, 1_000, 10_000, 100_000)
    gaps = gaps_as_data_grows(
        enumerate_mdp(family, 2),
        sizes,
        num_datasets=max(10, settings.num_datasets // 10),
        generator=np.random.default_rng(settings.seed),
        gap=gap,
    )
    slope = log_log_slope(sizes, gaps)
    return Check(
        name="transformed-consistency",
        statement="Theorem 2 (iii), Lemma 1: offline evaluation approaches online evaluation as "
        "the data grows, for every batch-constrained meta-policy",
        paper="gap to 0, at rate -1/2",
        computed=f"worst gap {', '.join(map(number, gaps))} with "
        f"{', '.join(f'{size:,}' for size in sizes)} trajectories; slope {slope:.2f}",
        holds=abs(slope + 0.5) < 0.15 and gaps[-1] < gaps[0] / 10,
        note="Two doors that surprise, two episodes; mean over random datasets of the largest gap "
        "over all batch-constrained meta-policies.",
    )


def transformed_online_value_as_printed(settings: Settings) -> Check:
    """The printed identity of the transformed value with the online one."""
    transformed, online = [], []
    for v in (2, *settings.v_range):
        transformed.append(best_value(enumerate_transformed(doors(v), v).mdp)[0])
        online.append(best_value(doors_data(v, v).belief_mdp.mdp)[0])
    return Check(
        name="transformed-online-value-as-printed",
        statement="Appendix A.3.2: J in the transformed BAMDP is the mean return over tasks",
        paper="equal",
        computed=f"best {listed(transformed[1:])} against {listed(online[1:])} for "
        f"{settings.v_text}",
        holds=transformed == online,
        note=f"Two doors suffice: {transformed[0]} against {online[0]}. What the transformed "
        "value promises is the return of in-distribution episodes, not that of all of them.",
    )
