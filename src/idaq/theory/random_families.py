"""Small random families, policies and datasets, all drawn from one source of integers.

`choose(low, high)` may be a pseudo-random generator's `randint`, as in the named checks, or a draw
of a property-based test, which can then shrink a counterexample. Zeros are frequent on purpose:
what a family cannot do matters as much here as what it does.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor
from typing import TypeAlias

from idaq.theory.datasets import Dataset, batch_actions
from idaq.theory.families import Behaviour, TabularFamily, TabularTask
from idaq.theory.mdps import ActionSets, LayeredMdp, Policy, trajectory_law
from idaq.theory.probabilities import ONE, ZERO, T, from_weights
from idaq.theory.selection import Episode

Choose: TypeAlias = Callable[[int, int], int]
"""An integer between two bounds, both included."""


def draw_law(choose: Choose, outcomes: Sequence[T]) -> dict[T, Fraction]:
    """A distribution with small rational probabilities, some of them zero."""
    weights = [choose(0, 3) for _ in outcomes]
    if not any(weights):
        weights[0] = 1
    return from_weights(dict(zip(outcomes, weights, strict=True)))


def draw_positive_law(choose: Choose, outcomes: Sequence[T]) -> dict[T, Fraction]:
    """A distribution with small rational probabilities, all positive."""
    return from_weights({outcome: choose(1, 3) for outcome in outcomes})


def draw_policy(choose: Choose, actions: ActionSets) -> Policy:
    """A stochastic policy that keeps to the given actions."""
    return [draw_law(choose, sorted(row)) if row else {} for row in actions]


def draw_family(choose: Choose, *, max_horizon: int = 2) -> TabularFamily:
    """Two or three tasks of a few steps, with one or two behaviour policies each.

    Each task's draws stand together and the third task comes last, so that shrinking can drop it.
    """
    horizon = choose(1, max_horizon)
    layers: tuple[tuple[int, ...], ...] = ((0,),)
    for _ in range(horizon - 1):
        start = layers[-1][-1] + 1
        layers = (*layers, tuple(range(start, start + choose(1, 2))))
    actions = range(choose(1, 2))
    reward_values = ((ZERO, ONE), (ZERO, Fraction(1, 2), ONE))[choose(0, 1)]
    num_states = sum(len(layer) for layer in layers)

    def draw_task() -> tuple[TabularTask, tuple[Behaviour, ...], int]:
        transitions = tuple(
            tuple(draw_law(choose, layers[(step + 1) % horizon]) for _ in actions)
            for step, layer in enumerate(layers)
            for _ in layer
        )
        rewards = tuple(
            tuple(draw_law(choose, reward_values) for _ in actions) for _ in range(num_states)
        )
        weights = draw_positive_law(choose, range(choose(1, 2)))
        behaviours = tuple(
            Behaviour(p, draw_policy(choose, [actions] * num_states)) for p in weights.values()
        )
        return TabularTask(transitions, rewards), behaviours, choose(1, 3)

    drawn = [draw_task(), draw_task()]
    if choose(0, 1):
        drawn.append(draw_task())
    prior = from_weights(dict(enumerate(weight for _, _, weight in drawn)))
    return TabularFamily(
        layers=layers,
        num_actions=len(actions),
        reward_values=reward_values,
        tasks=tuple(task for task, _, _ in drawn),
        prior=tuple(prior.values()),
        behaviours=tuple(behaviours for _, behaviours, _ in drawn),
    )


def draw_num_episodes(choose: Choose, family: TabularFamily) -> int:
    """One or two episodes, or three where an episode is a single step."""
    return choose(1, 3 if family.horizon == 1 else 2)


def draw_dataset(choose: Choose, mdp: LayeredMdp, policy: Policy, *, num_copies: int) -> Dataset:
    """About `num_copies` trajectories in their true proportions, and a few stray ones."""
    trajectories = []
    for trajectory, p in trajectory_law(mdp, policy).items():
        trajectories += [trajectory] * (floor(num_copies * p) + choose(0, 2))
    if not trajectories:
        trajectories = [next(iter(trajectory_law(mdp, policy)))]
    return Dataset.from_trajectories(trajectories)


def draw_batch_policy(choose: Choose, dataset: Dataset, mdp: LayeredMdp) -> Policy:
    """A stochastic batch-constrained policy."""
    return draw_policy(choose, batch_actions(dataset, mdp))


def blend(first: LayeredMdp, second: LayeredMdp, share: Fraction) -> LayeredMdp:
    """An MDP near the first: each of its laws mixed with a share of the second's."""
    outcomes = tuple(
        tuple(
            from_weights(
                {
                    outcome: (1 - share) * mine.get(outcome, ZERO)
                    + share * other.get(outcome, ZERO)
                    for outcome in mine.keys() | other.keys()
                }
            )
            for mine, other in zip(my_row, other_row, strict=True)
        )
        for my_row, other_row in zip(first.outcomes, second.outcomes, strict=True)
    )
    return LayeredMdp(first.layers, first.num_actions, outcomes)


def draw_points(
    choose: Choose,
) -> tuple[list[tuple[Fraction, ...]], list[Fraction]]:
    """A finite distribution on the unit cube of one to three dimensions: points and weights."""
    dimension = choose(1, 3)
    num_points = choose(1, 5)
    points = [tuple(Fraction(choose(0, 4), 4) for _ in range(dimension)) for _ in range(num_points)]
    return points, list(draw_positive_law(choose, range(num_points)).values())


def draw_episode_law(choose: Choose) -> dict[Episode, Fraction]:
    """A law of episodes under Assumption 1: in-distribution returns are the higher ones."""
    boundary = choose(0, 3)
    returns = range(1 + boundary + choose(1, 3))
    episodes = [Episode(Fraction(value), value > boundary) for value in returns]
    return draw_positive_law(choose, episodes)
