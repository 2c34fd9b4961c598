"""Example families: the paper's example with v doors, and small counterexamples.

`doors` is the family of the paper's Figure 2 (Section 3.1). The others are not in the paper; each
is a small family that shows one thing, and is named after what happens in it.
"""

from collections.abc import Sequence
from fractions import Fraction

from idaq.theory.families import Behaviour, TabularFamily, TabularTask
from idaq.theory.mdps import Policy
from idaq.theory.probabilities import ONE, ZERO, Distribution, from_weights, point_mass, uniform

BINARY = (ZERO, ONE)


def coin(success: Fraction) -> dict[Fraction, Fraction]:
    """The law of a reward that is 1 with the given probability and 0 otherwise."""
    return {r: p for r, p in ((ZERO, 1 - success), (ONE, success)) if p}


def single_state_family(
    success: Sequence[Sequence[Fraction]],
    prior: Sequence[Fraction],
    behaviours: Sequence[Distribution[int]],
) -> TabularFamily:
    """One state, one step: task i pays 1 for action a with probability success[i][a]."""
    return TabularFamily(
        layers=((0,),),
        num_actions=len(success[0]),
        reward_values=BINARY,
        tasks=tuple(
            TabularTask(
                transitions=(tuple(point_mass(0) for _ in row),),
                rewards=(tuple(coin(p) for p in row),),
            )
            for row in success
        ),
        prior=tuple(prior),
        behaviours=tuple((Behaviour(ONE, (law,)),) for law in behaviours),
    )


def doors(num_doors: int) -> TabularFamily:
    """The paper's example: task i pays 1 behind door i, and its data was logged by opening door i.

    One state, one step per episode, as many tasks and behaviour policies as doors, uniform prior.
    """
    return noisy_doors(num_doors, success=ONE, loyalty=ONE)


def noisy_doors(num_doors: int, *, success: Fraction, loyalty: Fraction) -> TabularFamily:
    """Doors with chance in their rewards and in the behaviour policy.

    The right door pays with probability `success`, any other with 1 - `success`; the behaviour
    policy opens the right door with probability `loyalty`, otherwise one of the others.
    """
    every = range(num_doors)
    stray = (1 - loyalty) / (num_doors - 1)
    return single_state_family(
        success=[[success if a == i else 1 - success for a in every] for i in every],
        prior=[Fraction(1, num_doors)] * num_doors,
        behaviours=[from_weights({a: loyalty if a == i else stray for a in every}) for i in every],
    )


def levers(success: Sequence[Fraction], prior: Sequence[Fraction]) -> TabularFamily:
    """One lever per task, which pays with that task's probability: one state, one action."""
    return single_state_family([[p] for p in success], prior, [point_mass(0)] * len(success))


def halving_levers(num_levels: int) -> TabularFamily:
    """Levers of weight 2^-j that pay with chance 2^-j, and one of weight 1/2 that never pays."""
    success = [ZERO, *(Fraction(1, 2**j) for j in range(1, num_levels + 1))]
    weights = {0: Fraction(1, 2), **{j: Fraction(1, 2**j) for j in range(1, num_levels + 1)}}
    prior = from_weights(weights)
    return levers(success, [prior[j] for j in range(num_levels + 1)])


def rare_lever(num_training_tasks: int) -> TabularFamily:
    """One lever that never pays, and one that always does and comes up once in m + 1 tasks."""
    rare = Fraction(1, num_training_tasks + 1)
    return levers([ZERO, ONE], [1 - rare, rare])


# --- Two-step families ---


def _two_step_family(
    num_branches: int,
    num_actions: int,
    first_rewards: Sequence[Sequence[Fraction]],
    branches: Sequence[Sequence[int]],
    second_rewards: Sequence[Sequence[Fraction]],
    behaviours: Sequence[Distribution[int]],
) -> TabularFamily:
    """Step one: an action's reward and branch. Step two: the branch's reward, whatever is done."""
    actions = range(num_actions)
    end = tuple(tuple(point_mass(0) for _ in actions) for _ in range(num_branches))
    num_tasks = len(branches)
    return TabularFamily(
        layers=((0,), tuple(range(1, num_branches + 1))),
        num_actions=num_actions,
        reward_values=BINARY,
        tasks=tuple(
            TabularTask(
                transitions=(tuple(point_mass(branches[i][a]) for a in actions), *end),
                rewards=(
                    tuple(point_mass(first_rewards[i][a]) for a in actions),
                    *(
                        tuple(point_mass(second_rewards[i][b]) for _ in actions)
                        for b in range(num_branches)
                    ),
                ),
            )
            for i in range(num_tasks)
        ),
        prior=(Fraction(1, num_tasks),) * num_tasks,
        behaviours=tuple(
            (Behaviour(ONE, (law, *(point_mass(0) for _ in range(num_branches)))),)
            for law in behaviours
        ),
    )


def corridors(num_doors: int) -> TabularFamily:
    """Each door stands at the end of its own corridor: walk first, then open.

    The walk reveals nothing, so the belief at the end of a corridor is the prior, although only
    one task's data ever gets there.
    """
    every = range(num_doors)
    return _two_step_family(
        num_branches=num_doors,
        num_actions=num_doors,
        first_rewards=[[ZERO] * num_doors] * num_doors,
        branches=[[a + 1 for a in every]] * num_doors,
        second_rewards=[[ONE if b == i else ZERO for b in every] for i in every],
        behaviours=[point_mass(i) for i in every],
    )


def telling_rewards() -> TabularFamily:
    """Two tasks in which the reward tells where the step leads: the two are dependent."""
    return _two_step_family(
        num_branches=2,
        num_actions=1,
        first_rewards=[[ZERO], [ONE]],
        branches=[[1], [2]],
        second_rewards=[[ZERO, ZERO]] * 2,
        behaviours=[point_mass(0)] * 2,
    )


def swapped_corridors() -> TabularFamily:
    """Two tasks whose two corridors are swapped; the second task's data only ever took action 1.

    The first task's policy, run in the second, meets only states and (s, a, r) of the first task's
    data, but action 0 takes it through a transition that no data contains.
    """
    return _two_step_family(
        num_branches=2,
        num_actions=2,
        first_rewards=[[ZERO, ZERO]] * 2,
        branches=[[1, 2], [2, 1]],
        second_rewards=[[ZERO, ZERO]] * 2,
        behaviours=[uniform((0, 1)), point_mass(1)],
    )


# --- Single-state families ---


def generous_door() -> TabularFamily:
    """Two doors; in the second task the first door also pays, half of the time.

    An episode that the first hypothesis runs in the second task may look like the first task's
    data, and then rules the true task out of the belief.
    """
    half = Fraction(1, 2)
    return single_state_family(
        success=[[ONE, ZERO], [half, ONE]],
        prior=[half, half],
        behaviours=[point_mass(0), point_mass(1)],
    )


def wrong_doors(num_doors: int) -> Sequence[Policy]:
    """For each task of `doors`, a policy that opens the next door instead of the right one."""
    return [(point_mass((i + 1) % num_doors),) for i in range(num_doors)]
