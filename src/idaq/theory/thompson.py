"""Thompson-sampling meta-policies on the transformed BAMDP (Appendix A.4, Theorem 3).

In each episode the agent draws a hypothesis (kappa, mu) from its belief, acts as mu does, and
updates the belief if the episode is feasible under it. Returns and beliefs are computed exactly, by
following the law of the belief from episode to episode.

Departures from the paper:

1. A hypothesis's policy is its behaviour policy, which is batch-constrained in unlimited data.
2. The paper says that the closest hypothesis stays in the belief by induction over episodes. It
   does if it ran those episodes itself (`keeps_own_hypothesis`). An accepted episode of *another*
   hypothesis may rule it out: see `generous_door` in `examples`.
3. The paper does not say what a meta-policy does in a hyper-state that it was never trained on. The
   naive agent acts uniformly at random there.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

from idaq.theory.bamdp import Belief, HyperState, enumerate_bamdp
from idaq.theory.closest import closest_task_law, task_distances
from idaq.theory.datasets import Dataset
from idaq.theory.families import TabularFamily
from idaq.theory.leaving import JudgedOn, is_inside, worst_leave_probability
from idaq.theory.mdps import (
    LayeredMdp,
    Outcome,
    Policy,
    Trajectory,
    best_value,
    trajectory_law,
    visitation,
)
from idaq.theory.probabilities import ONE, ZERO, Number, uniform
from idaq.theory.sampling import dataset_of, seen_sets
from idaq.theory.transformed import prior_belief, update_belief

Agent: TypeAlias = Literal["in-distribution", "naive"]
"""What becomes of an episode that the belief cannot explain: it is set aside, or it is trusted."""


def update_with_episode(
    family: TabularFamily, belief: Belief, episode: Trajectory
) -> Belief | None:
    """The belief after an episode; None if the episode is infeasible under it."""
    hyper_state: HyperState | None = HyperState(0, belief)
    for step in episode:
        if hyper_state is None:
            return None
        outcome = Outcome(step.reward, step.next_state)
        hyper_state = update_belief(family, hyper_state, step.action, outcome)
    return None if hyper_state is None else hyper_state.belief


class Adaptation(NamedTuple):
    """The expected return of each episode, and the law of the agent's final belief."""

    returns: list[Fraction]
    beliefs: dict[Belief | None, Fraction]


def adapt(
    family: TabularFamily, test_task: int, num_episodes: int, agent: Agent = "in-distribution"
) -> Adaptation:
    """Run a Thompson-sampling agent in one task and follow the law of its belief.

    The in-distribution agent keeps its belief when an episode is infeasible. The naive one is then
    left with no belief that its policy was trained for (None), and acts at random from there on.
    """
    mdp = family.mdps[test_task]
    untrained: Policy = [uniform(range(family.num_actions))] * family.num_states
    beliefs: dict[Belief | None, Fraction] = {prior_belief(family): ONE}
    returns = []
    for _ in range(num_episodes):
        expected = ZERO
        following: dict[Belief | None, Fraction] = {}
        for belief, probability in beliefs.items():
            for policy, p in _policies(family, belief, untrained):
                for episode, q in trajectory_law(mdp, policy).items():
                    weight = probability * p * q
                    expected += weight * sum((step.reward for step in episode), ZERO)
                    updated = None
                    if belief is not None:
                        updated = update_with_episode(family, belief, episode)
                        if updated is None and agent == "in-distribution":
                            updated = belief
                    following[updated] = following.get(updated, ZERO) + weight
        returns.append(expected)
        beliefs = following
    return Adaptation(returns, beliefs)


def _policies(
    family: TabularFamily, belief: Belief | None, untrained: Policy
) -> list[tuple[Policy, Fraction]]:
    if belief is None:
        return [(untrained, ONE)]
    return [(h.behaviour, b) for h, b in zip(family.hypotheses, belief, strict=True) if b]


def expected_returns(family: TabularFamily, num_episodes: int, agent: Agent) -> list[Fraction]:
    """The expected return of each episode in a task drawn from the prior."""
    courses = [adapt(family, task, num_episodes, agent).returns for task in range(family.num_tasks)]
    return [
        sum((p * course[episode] for p, course in zip(family.prior, courses, strict=True)), ZERO)
        for episode in range(num_episodes)
    ]


def optimal_returns(family: TabularFamily, num_episodes: int) -> list[Fraction]:
    """The expected return of each episode under the Bayes-optimal meta-policy."""
    mdp = enumerate_bamdp(family, num_episodes).mdp
    _, policy = best_value(mdp)
    per_step = _rewards_per_step(mdp, policy)
    length = family.horizon
    return [sum(per_step[k * length : (k + 1) * length], ZERO) for k in range(num_episodes)]


def _rewards_per_step(mdp: LayeredMdp, policy: Policy) -> Sequence[Fraction]:
    rho = visitation(mdp, policy)
    return [
        mdp.horizon
        * sum(
            (
                rho[state] * p * mdp.mean_rewards[state][action]
                for state in layer
                if rho[state]
                for action, p in policy[state].items()
            ),
            ZERO,
        )
        for layer in mdp.layers
    ]


# --- The closest hypothesis ---


def logged_support(family: TabularFamily, hypothesis: int) -> Dataset:
    """The sub-dataset of one hypothesis when it is unlimited: every trajectory it can log."""
    chosen = family.hypotheses[hypothesis]
    law = trajectory_law(family.mdps[chosen.task], chosen.behaviour)
    return Dataset.from_trajectories(law)


def keeps_own_hypothesis(family: TabularFamily, judged_on: JudgedOn) -> bool:
    """Whether every episode that stays inside its hypothesis's data leaves it in the belief.

    Runs the behaviour policy of every hypothesis in every task, starting from the prior.
    """
    prior = prior_belief(family)
    for index, hypothesis in enumerate(family.hypotheses):
        data = logged_support(family, index)
        for mdp in family.mdps:
            for episode in trajectory_law(mdp, hypothesis.behaviour):
                if all(is_inside(step, data, judged_on) for step in episode):
                    updated = update_with_episode(family, prior, episode)
                    if updated is None or not updated[index]:
                        return False
    return True


class LeaveLaw:
    """The exact law of p_out for the closest training task's hypothesis in a new task.

    The law is over the test task, the closest of m training tasks and its K logged trajectories;
    p_out is that of the worst batch-constrained policy. Each task must have one behaviour policy.
    """

    def __init__(self, family: TabularFamily, judged_on: JudgedOn = "next-state") -> None:
        """Prepare what does not depend on m and K."""
        self._family = family
        self._judged_on = judged_on
        self._distances = task_distances(family)
        self._logged = [
            trajectory_law(mdp, behaviour)
            for mdp, ((_, behaviour),) in zip(family.mdps, family.behaviours, strict=True)
        ]
        self._worst: dict[tuple[int, frozenset[Trajectory]], Fraction] = {}

    def _worst_leave(self, test_task: int, seen: frozenset[Trajectory]) -> Fraction:
        if (test_task, seen) not in self._worst:
            mdp = self._family.mdps[test_task]
            worst = worst_leave_probability(mdp, dataset_of(seen), self._judged_on)
            self._worst[test_task, seen] = worst
        return self._worst[test_task, seen]

    def _law(
        self,
        prior: Sequence[Number],
        logged: Sequence[Mapping[Trajectory, Number]],
        num_tasks: int,
        num_trajectories: int,
    ) -> dict[Fraction, Number]:
        law: dict[Fraction, Number] = {}
        for test_task, p in enumerate(prior):
            closest_law = closest_task_law(self._distances, prior, test_task, num_tasks)
            for closest, q in closest_law.items():
                for seen, r in seen_sets(logged[closest], num_trajectories):
                    worst = self._worst_leave(test_task, seen)
                    weight = p * q * r
                    law[worst] = law[worst] + weight if worst in law else weight
        return law

    def exact(self, *, num_tasks: int, num_trajectories: int) -> dict[Fraction, Fraction]:
        """The law in rational numbers, for moderate m and K."""
        return self._law(self._family.prior, self._logged, num_tasks, num_trajectories)

    def approximate(self, *, num_tasks: int, num_trajectories: int) -> dict[Fraction, float]:
        """The law in floating point, for any m and K."""
        prior = [float(p) for p in self._family.prior]
        logged = [{t: float(p) for t, p in law.items()} for law in self._logged]
        return self._law(prior, logged, num_tasks, num_trajectories)
