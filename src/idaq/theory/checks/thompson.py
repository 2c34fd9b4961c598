"""Checks of Theorem 3 and Proposition 2: Appendix A.4 and A.5."""

import random
from fractions import Fraction
from itertools import pairwise

from idaq.theory.checks.record import Check, Settings, listed, number
from idaq.theory.examples import doors, generous_door, noisy_doors, swapped_corridors
from idaq.theory.leaving import JudgedOn, leave_probability, worst_leave_probability
from idaq.theory.probabilities import ONE, ZERO, mean
from idaq.theory.random_families import draw_episode_law
from idaq.theory.selection import reference_episode_law, reference_stage, separates
from idaq.theory.thompson import LeaveLaw, adapt, keeps_own_hypothesis, logged_support


def thompson_in_distribution(settings: Settings) -> Check:
    """Theorem 3 for one episode with the closest hypothesis."""
    leaves = 0
    for family, _ in settings.families():
        for index, hypothesis in enumerate(family.hypotheses):
            data = logged_support(family, index)
            mdp = family.mdps[hypothesis.task]
            leaves += worst_leave_probability(mdp, data, "next-state") > 0
    doors_hold = all(
        mean(LeaveLaw(doors(v)).exact(num_tasks=m, num_trajectories=2)) == (1 - Fraction(1, v)) ** m
        for v in settings.v_range
        for m in (1, 2, 5)
    )
    sizes = (1, 4, 16, 64)
    law = LeaveLaw(noisy_doors(3, success=Fraction(9, 10), loyalty=ONE))
    expected = [mean(law.exact(num_tasks=n, num_trajectories=n)) for n in sizes]
    falls = all(later < earlier / 2 for earlier, later in pairwise(expected))
    return Check(
        name="thompson-in-distribution",
        statement="Theorem 3: the closest hypothesis generates in-distribution episodes with a "
        "probability that grows to 1 with the data",
        paper="p_out to 0",
        computed=f"doors, m = 1, 2, 5: {'' if doors_hold else 'not '}(1 - 1/v)^m for "
        f"{settings.v_text}; noisy doors, m = K = {', '.join(map(str, sizes))}: "
        f"{', '.join(map(number, expected))}; unlimited data: {leaves} leaves in "
        f"{settings.num_families} families",
        holds=leaves == 0 and doors_hold and falls,
        note="The worst batch-constrained policy, exactly; leaving judged on (s, a, r, s').",
    )


def thompson_keeps_hypothesis(settings: Settings, *, judged_on: JudgedOn = "next-state") -> Check:
    """The induction of Theorem 3, made precise."""
    lost = sum(
        not keeps_own_hypothesis(family, judged_on)
        for family in (
            *(doors(v) for v in settings.v_range),
            *(family for family, _ in settings.families()),
        )
    )
    return Check(
        name="thompson-keeps-hypothesis",
        statement="Theorem 3, induction: an episode that stays inside its own hypothesis's data "
        "leaves that hypothesis in the belief",
        paper="always",
        computed=f"{lost} families in which it may be lost, of {settings.v_text} and "
        f"{settings.num_families} random ones",
        holds=lost == 0,
        note="Every hypothesis in every task; staying inside judged on (s, a, r, s').",
    )


def leaving_as_printed(_: Settings) -> Check:
    """Definition 6 does not look at the next state."""
    family = swapped_corridors()
    data = logged_support(family, 0)
    policy = ({0: ONE}, {0: ONE}, {0: ONE})
    printed = leave_probability(family.mdps[1], data, policy, "reward")
    with_next = leave_probability(family.mdps[1], data, policy, "next-state")
    kept = keeps_own_hypothesis(family, "reward")
    return Check(
        name="leaving-as-printed",
        statement="Definition 6, Theorem 3: an episode whose states and (s, a, r) are all in the "
        "data is in distribution",
        paper="its belief update is feasible",
        computed="feasible" if kept else "infeasible",
        holds=kept,
        note=f"Two tasks with swapped corridors, two steps: p_out is {printed} as printed although "
        f"the step taken is in no data; judged on (s, a, r, s') it is {with_next}.",
    )


def thompson_later_episodes_as_printed(_: Settings) -> Check:
    """An accepted episode of another hypothesis can rule the closest one out for good."""
    family = generous_door()
    beliefs = adapt(family, test_task=1, num_episodes=1).beliefs
    stuck = sum((p for belief, p in beliefs.items() if belief and not belief[1]), ZERO)
    best = max(
        min(
            leave_probability(
                family.mdps[1], logged_support(family, index), hypothesis.behaviour, "next-state"
            )
            for index, hypothesis in enumerate(family.hypotheses)
            if belief[index]
        )
        for belief in beliefs
        if belief is not None
    )
    return Check(
        name="thompson-later-episodes-as-printed",
        statement="Theorem 3: in every episode some hypothesis in the current belief generates "
        "in-distribution episodes with high probability, with enough data",
        paper="p_out to 0",
        computed=f"p_out = {best} for the best hypothesis left in the belief, with unlimited data, "
        f"after one accepted episode; that happens with probability {stuck}",
        holds=best == 0,
        note="Two doors; in the second task the first pays half of the time. Found so, it looks "
        "like the first task's data, and mu rules the truth out. True of the first episode, and "
        "while the closest hypothesis runs the episodes itself: thompson-keeps-hypothesis.",
    )


def return_selection(settings: Settings) -> Check:
    """Proposition 2 under Assumption 1."""
    best_only = Fraction(1, 1000)
    choose = random.Random(settings.seed).randint
    unclean = sum(
        reference_stage(draw_episode_law(choose), 4, best_only).clean_if_met < 1
        for _ in range(settings.num_families)
    )
    met, clean = [], []
    assumed = True
    for v in settings.v_range:
        law = reference_episode_law(doors(v), 0)
        assumed &= separates(law)
        stage = reference_stage(law, v, best_only)
        met.append(stage.met)
        clean.append(stage.clean_if_met)
    ten = reference_episode_law(doors(10), 0)
    loose = reference_stage(ten, 10, Fraction(20, 100)).clean_if_met
    return Check(
        name="return-selection",
        statement="Proposition 2: with Assumption 1, the episodes that the return selects are in "
        "distribution, if any is",
        paper="always",
        computed=f"doors, n_r = v: {listed(clean)}; {unclean} failures in {settings.num_families} "
        "random laws of episodes",
        holds=assumed and unclean == 0 and set(clean) == {ONE},
        note=f"Best episode kept; one is met with probability {', '.join(map(number, met))}. A "
        "wider quantile keeps others too: k = 20%, n_r = 10 on 10 doors is clean with "
        f"probability {number(loose)} only.",
    )
