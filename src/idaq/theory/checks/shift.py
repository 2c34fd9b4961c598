"""Checks of Section 3.1, Theorem 1 and Proposition 1: the shift, and what it costs."""

from fractions import Fraction
from functools import lru_cache
from math import prod

from idaq.theory.bamdp import enumerate_bamdp
from idaq.theory.checks.record import Check, Settings, listed
from idaq.theory.collection import Collection, collect, leaving_probability
from idaq.theory.examples import corridors, doors
from idaq.theory.mdps import best_value
from idaq.theory.probabilities import ONE, ZERO


@lru_cache(maxsize=32)
def doors_data(num_doors: int, num_episodes: int) -> Collection:
    """The BAMDP of the example with doors and the data logged in it."""
    return collect(enumerate_bamdp(doors(num_doors), num_episodes))


def _chance_of_reward(data: Collection, number: int, action: int, kind: str) -> Fraction:
    law = {
        "offline": lambda: data.outcome_law(number, action),
        "printed": lambda: data.outcome_law(number, action, action_factor=False),
        "online": lambda: data.belief_mdp.outcome_law(number, action),
    }[kind]()
    return sum((p for outcome, p in law.items() if outcome.reward == ONE), ZERO)


def _chances(data: Collection, number: int, kind: str) -> set[Fraction]:
    """The chances of reward 1 over all actions that the data contains in a hyper-state."""
    actions = range(data.family.num_actions)
    return {_chance_of_reward(data, number, a, kind) for a in actions if data.contains(number, a)}


def shift_exists(settings: Settings) -> Check:
    """Theorem 1 on the example, with the factor mu(a|s) in the data's law."""
    offline, online, holds = [], [], True
    for v in settings.v_range:
        data = doors_data(v, v)
        at_first, met = _chances(data, 0, "offline"), _chances(data, 0, "online")
        offline.append(max(at_first))
        online.append(max(met))
        holds &= at_first == {ONE} and met == {Fraction(1, v)}
    return Check(
        name="shift-exists",
        statement="Theorem 1: behind any door, data and online experience differ in P(r = 1)",
        paper="1 against 1/v",
        computed=f"{listed(offline)} against {listed(online)} for {settings.v_text}",
        holds=holds,
        note="The data's law with the factor mu(a|s), which the printed equation lacks.",
    )


def shift_as_printed(settings: Settings) -> Check:
    """The same with the printed law of the data."""
    offline = [max(_chances(doors_data(v, v), 0, "printed")) for v in settings.v_range]
    smallest = doors_data(2, 1)
    printed = max(_chances(smallest, 0, "printed"))
    online = max(_chances(smallest, 0, "online"))
    return Check(
        name="shift-as-printed",
        statement="Theorem 1, with the data's law as printed, without mu(a|s)",
        paper="1 against 1/v",
        computed=f"{listed(offline)} in the data for {settings.v_text}",
        holds=all(chance == 1 for chance in offline),
        note=f"Two doors suffice: {printed} in the data, {online} online, no shift. See "
        "shift-exists for the factor, shift-exists-corridors for an example that needs none.",
    )


def shift_exists_corridors(settings: Settings) -> Check:
    """Theorem 1 is true of the printed law too, on an example with one more step."""
    offline, online, holds = [], [], True
    for v in settings.v_range:
        data = collect(enumerate_bamdp(corridors(v), 1))
        for number in data.belief_mdp.mdp.layers[1]:
            in_data, met = _chances(data, number, "printed"), _chances(data, number, "online")
            holds &= in_data.isdisjoint(met)
        offline.append(max(in_data))
        online.append(max(met))
    return Check(
        name="shift-exists-corridors",
        statement="Theorem 1, printed law: at the end of any of v corridors, P(r = 1) differs",
        paper="different",
        computed=f"{listed(offline)} against {listed(online)} for {settings.v_text}",
        holds=holds,
        note="Choosing a corridor reveals nothing, yet only one task's data ends in each.",
    )


def out_of_distribution_visits(settings: Settings) -> Check:
    """Proposition 1 (i): the least and the largest probability to leave the data."""
    least = [leaving_probability(doors_data(v, v), sense="min") for v in settings.v_range]
    largest = [leaving_probability(doors_data(v, v), sense="max") for v in settings.v_range]
    expected = [1 - Fraction(1, v) for v in settings.v_range]
    two = leaving_probability(doors_data(2, 2), sense="max")
    return Check(
        name="out-of-distribution-visits",
        statement="Proposition 1 (i): any batch-constrained meta-policy visits hyper-states "
        "outside of the data",
        paper="with probability 1 - 1/v",
        computed=f"at least {listed(least)}; at most {listed(largest)}",
        holds=least == largest == expected,
        note=f"v >= 3 is needed: with two doors, excluding one names the other, and the "
        f"probability is {two}.",
    )


def batch_reach_as_printed(settings: Settings) -> Check:
    """Appendix A.2 takes for granted what Proposition 1 (i) refutes."""
    outside = [leaving_probability(doors_data(v, v), sense="min") for v in settings.v_range]
    three = leaving_probability(doors_data(3, 2), sense="min")
    return Check(
        name="batch-reach-as-printed",
        statement="Appendix A.2: whatever a batch-constrained meta-policy reaches in the BAMDP, "
        "the data contains",
        paper="always",
        computed=f"outside of the data with probability {listed(outside)} for {settings.v_text}",
        holds=not any(outside),
        note=f"Three doors and two episodes suffice: {three}. Constrained actions do not constrain "
        "beliefs. It is true in the transformed BAMDP: transformed-in-distribution.",
    )


def evaluation_gap(settings: Settings) -> Check:
    """Proposition 1 (ii): offline evaluation, the best online value, and the gap."""
    offline_low, offline_high, online = [], [], []
    for v in settings.v_range:
        data = doors_data(v, v)
        limit = data.data_mdp()
        offline_low.append(best_value(limit, sense="min")[0])
        offline_high.append(best_value(limit, sense="max")[0])
        online.append(best_value(data.belief_mdp.mdp, data.batch_actions())[0])
    gaps = [low - best for low, best in zip(offline_low, online, strict=True)]
    holds = all(
        low == high == v and best == Fraction(v + 1, 2) and gap == Fraction(v - 1, 2)
        for v, low, high, best, gap in zip(
            settings.v_range, offline_low, offline_high, online, gaps, strict=True
        )
    )
    return Check(
        name="evaluation-gap",
        statement="Proposition 1 (ii): offline evaluation says v, no meta-policy gets more than "
        "(v + 1)/2 online",
        paper="gap at least (H+ - 1)/2 with H+ = v",
        computed=f"offline {listed(offline_low)}; online optimum {listed(online)}; "
        f"least gap {listed(gaps)}",
        holds=holds,
        note="Optima by dynamic programming over all hyper-states; the best meta-policy is itself "
        "batch-constrained.",
    )


def first_line(num_doors: int, num_episodes: int) -> Fraction:
    """The proof's first expression for the optimum, for N episodes."""
    return sum(
        (
            Fraction(num_episodes - k, num_doors - k)
            * prod((1 - Fraction(1, num_doors - j) for j in range(k)), start=ONE)
            for k in range(num_episodes)
        ),
        ZERO,
    )


def third_line(num_doors: int, num_episodes: int) -> Fraction:
    """The proof's third expression, N - N (N - 1) / (2 v)."""
    return num_episodes - Fraction(num_episodes * (num_episodes - 1), 2 * num_doors)


def _optimum(num_doors: int, num_episodes: int) -> Fraction:
    return best_value(doors_data(num_doors, num_episodes).belief_mdp.mdp)[0]


def optimum_any_episodes(settings: Settings) -> Check:
    """The optimum for every number of episodes up to v."""
    v = min(settings.v_range[-1], 7)
    optima = [_optimum(v, n) for n in range(1, v + 1)]
    formula = [Fraction(n * (n + 1), 2 * v) for n in range(1, v + 1)]
    printed = [first_line(v, n) for n in range(1, v + 1)]
    return Check(
        name="optimum-any-episodes",
        statement="Proposition 1, proof: the optimum over N <= v episodes is N (N + 1) / (2 v)",
        paper="the proof's first expression",
        computed=f"v = {v}, N = 1..{v}: {listed(optima)}",
        holds=optima == formula == printed,
    )


def optimum_chain_as_printed(settings: Settings) -> Check:
    """The proof's chain of equalities, which is true for N = v only."""
    v = settings.v_range[0]
    lines = [(n, _optimum(v, n), third_line(v, n)) for n in range(1, v + 1)]
    agree = [n for n, optimum, printed in lines if optimum == printed]
    n, optimum, printed = lines[0]
    return Check(
        name="optimum-chain-as-printed",
        statement="Proposition 1, proof: the same optimum is N - N (N - 1) / (2 v) for every N",
        paper="equal",
        computed=f"v = {v}: equal for N = {listed(agree)} only",
        holds=len(agree) == len(lines),
        note=f"With N = {n}: optimum {optimum}, printed expression {printed}. Harmless, since the "
        "example has N = v.",
    )
