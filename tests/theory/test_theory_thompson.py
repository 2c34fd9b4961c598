"""Thompson sampling, the closest hypothesis and return-based selection."""

import random
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idaq.theory.examples import (
    doors,
    generous_door,
    halving_levers,
    noisy_doors,
    rare_lever,
    swapped_corridors,
    wrong_doors,
)
from idaq.theory.leaving import leave_probability, worst_leave_probability
from idaq.theory.mdps import trajectory_law
from idaq.theory.probabilities import mean
from idaq.theory.random_families import draw_episode_law, draw_family
from idaq.theory.selection import (
    Episode,
    kept_episodes,
    reference_episode_law,
    reference_stage,
    separates,
)
from idaq.theory.thompson import (
    LeaveLaw,
    adapt,
    expected_returns,
    keeps_own_hypothesis,
    logged_support,
    optimal_returns,
    update_with_episode,
)
from idaq.theory.transformed import prior_belief

RANDOM = st.randoms(use_true_random=False)
EXHAUSTIVE = settings(max_examples=200, derandomize=True, deadline=None)
BEST = Fraction(1, 1000)


# --- Adaptation ---


@pytest.mark.parametrize("v", range(3, 9))
def test_the_course_of_each_agent_on_the_doors(v: int) -> None:
    miss = 1 - Fraction(1, v)
    assert expected_returns(doors(v), v, "in-distribution") == [
        1 - miss ** (episode + 1) for episode in range(v)
    ]
    stuck = Fraction(1, v) + miss / v
    assert expected_returns(doors(v), v, "naive") == [Fraction(1, v), *[stuck] * (v - 1)]
    assert optimal_returns(doors(v), v) == [Fraction(episode + 1, v) for episode in range(v)]


def test_agents_agree_where_every_episode_is_feasible() -> None:
    family = noisy_doors(3, success=Fraction(3, 4), loyalty=Fraction(1, 2))
    assert adapt(family, 1, 3, "naive") == adapt(family, 1, 3, "in-distribution")


@pytest.mark.parametrize("agent", ["in-distribution", "naive"])
def test_adaptation_agrees_with_simulation(agent: str) -> None:
    """The law of the belief against plain simulation of the agent."""
    family, test_task, num_episodes = generous_door(), 1, 3
    exact = adapt(family, test_task, num_episodes, agent)  # type: ignore[arg-type]
    assert sum(exact.beliefs.values()) == 1
    source = random.Random(0)
    runs = 20_000
    totals = [0.0] * num_episodes
    for _ in range(runs):
        belief = prior_belief(family)
        lost = False
        for episode in range(num_episodes):
            actions = [source.randrange(2)]
            if not lost:
                drawn = source.choices(family.hypotheses, [float(b) for b in belief])[0]
                actions = list(drawn.behaviour[0])
            law = trajectory_law(family.mdps[test_task], ({actions[0]: Fraction(1)},))
            trajectory = source.choices(list(law), [float(p) for p in law.values()])[0]
            totals[episode] += float(trajectory[0].reward) / runs
            updated = None if lost else update_with_episode(family, belief, trajectory)
            if updated is not None:
                belief = updated
            elif agent == "naive":
                lost = True
    for simulated, computed in zip(totals, exact.returns, strict=True):
        assert simulated == pytest.approx(float(computed), abs=0.02)


# --- The closest hypothesis ---


@EXHAUSTIVE
@given(RANDOM)
def test_the_right_hypothesis_never_leaves_unlimited_data(source: random.Random) -> None:
    family = draw_family(source.randint)
    for index, hypothesis in enumerate(family.hypotheses):
        data = logged_support(family, index)
        assert worst_leave_probability(family.mdps[hypothesis.task], data, "next-state") == 0


@EXHAUSTIVE
@given(RANDOM)
def test_an_episode_inside_its_data_keeps_its_hypothesis(source: random.Random) -> None:
    assert keeps_own_hypothesis(draw_family(source.randint), "next-state")


def test_judged_without_the_next_state_it_may_lose_it() -> None:
    assert not keeps_own_hypothesis(swapped_corridors(), "reward")
    assert keeps_own_hypothesis(swapped_corridors(), "next-state")


def test_an_accepted_episode_may_rule_the_truth_out() -> None:
    family = generous_door()
    beliefs = adapt(family, test_task=1, num_episodes=1).beliefs
    convinced = (Fraction(1), Fraction(0))
    assert beliefs[convinced] == Fraction(1, 4)
    data, behaviour = logged_support(family, 0), family.hypotheses[0].behaviour
    assert leave_probability(family.mdps[1], data, behaviour) == Fraction(1, 2)


@pytest.mark.parametrize(("v", "num_tasks"), [(3, 1), (3, 4), (5, 2)])
def test_leave_probability_on_the_doors(v: int, num_tasks: int) -> None:
    law = LeaveLaw(doors(v)).exact(num_tasks=num_tasks, num_trajectories=3)
    assert law.get(Fraction(1), 0) == (1 - Fraction(1, v)) ** num_tasks
    assert sum(law.values()) == 1


def test_leave_law_by_hand() -> None:
    """Noisy doors with the right hypothesis: out when data shows one outcome, life the other."""
    success, k, m, v = Fraction(3, 4), 2, 3, 3
    law = LeaveLaw(noisy_doors(v, success=success, loyalty=Fraction(1)))
    all_won, all_lost = success**k, (1 - success) ** k
    trained = 1 - (1 - Fraction(1, v)) ** m
    right = all_won * (1 - success) + all_lost * success
    wrong = all_won * success + all_lost * (1 - success)
    expected = trained * right + (1 - trained) * wrong
    assert mean(law.exact(num_tasks=m, num_trajectories=k)) == expected
    floats = law.approximate(num_tasks=m, num_trajectories=k)
    assert sum(float(value) * p for value, p in floats.items()) == pytest.approx(float(expected))


def test_leave_probability_falls_with_tasks_and_with_data() -> None:
    law = LeaveLaw(halving_levers(6))
    by_tasks = [mean(law.exact(num_tasks=m, num_trajectories=50)) for m in (1, 4, 16, 64)]
    by_data = [mean(law.exact(num_tasks=200, num_trajectories=k)) for k in (1, 4, 16, 64)]
    for course in (by_tasks, by_data):
        assert course == sorted(course, reverse=True)
        assert course[-1] < course[0] / 20


def test_the_rare_lever_leaves_when_it_was_missed() -> None:
    law = LeaveLaw(rare_lever(9)).exact(num_tasks=9, num_trajectories=5)
    rare = Fraction(1, 10)
    assert law[Fraction(1)] == rare * (1 - rare) ** 9 + (1 - rare) * rare**9


# --- Selection by return ---


def test_the_quantile_is_an_observed_value() -> None:
    returns = [Fraction(value) for value in (3, 9, 1, 9, 5)]
    assert kept_episodes(returns, BEST) == [1, 3]
    assert kept_episodes(returns, Fraction(2, 5)) == [1, 3]
    assert kept_episodes(returns, Fraction(3, 5)) == [1, 3, 4]
    assert kept_episodes(returns, Fraction(1)) == [0, 1, 2, 3, 4]
    assert kept_episodes([Fraction(2)] * 3, BEST) == [0, 1, 2]


@EXHAUSTIVE
@given(RANDOM)
def test_with_the_assumption_the_best_return_is_in_distribution(source: random.Random) -> None:
    law = draw_episode_law(source.randint)
    assert separates(law)
    assert reference_stage(law, source.randint(1, 4), BEST).clean_if_met == 1


def test_a_reference_stage_by_enumeration() -> None:
    third = Fraction(1, 3)
    law = {Episode(Fraction(2), True): third, Episode(Fraction(1), False): 2 * third}
    met = clean = Fraction(0)
    for episodes in product(law, repeat=3):
        probability = law[episodes[0]] * law[episodes[1]] * law[episodes[2]]
        if any(episode.in_distribution for episode in episodes):
            met += probability
            kept = kept_episodes([episode.total_reward for episode in episodes], Fraction(2, 3))
            clean += probability * all(episodes[index].in_distribution for index in kept)
    stage = reference_stage(law, 3, Fraction(2, 3))
    assert (stage.met, stage.clean) == (met, clean)
    assert stage.clean_if_met < 1


def test_without_the_assumption_selection_fails() -> None:
    """Data of agents that open wrong doors: the episode with the reward is the odd one out."""
    family = doors(3).logged_by(*wrong_doors(3))
    law = reference_episode_law(family, 0)
    assert law == {
        Episode(Fraction(0), True): Fraction(2, 3),
        Episode(Fraction(1), False): Fraction(1, 3),
    }
    assert not separates(law)
    assert reference_stage(law, 5, BEST).clean_if_met < Fraction(1, 4)


def test_a_wide_quantile_keeps_what_it_should_not() -> None:
    law = reference_episode_law(doors(10), 0)
    assert reference_stage(law, 10, Fraction(10, 100)).clean_if_met == 1
    assert reference_stage(law, 10, Fraction(20, 100)).clean_if_met < Fraction(1, 2)
