"""The paper's finite-sample bounds, as printed and corrected (Appendix A.6 and A.7).

Departures from the paper, each in a function of its own next to the printed one:

1. `closest_task_bound`: the training tasks' distances to *one* test task are dependent, so their
   probabilities do not multiply. Splitting [0, 1]^n into C cells, the test task falls in a cell of
   weight w that m training tasks all miss with probability w (1 - w)^m, at most 1/(e m); summing
   over the cells gives delta = C / (e m) where the paper has delta = exp(-m / C).
2. `leave_bound`: the same correction in its second term; in its first, the union bound counts the
   |S||A||R| reward frequencies besides the |S|^2|A| transition frequencies; the two parts hold
   together with probability 1 - 2 delta, which the printed lemma does not say.
3. `hoeffding_step`: 1 - exp(-2 x) >= x is false at x = 1; by concavity (1 - exp(-2)) x is right.
4. The leave bounds take d_mu in the task itself, its limit in unlimited data; the lemma takes it in
   the dataset-induced MDP. With one step and one logged action both are 1.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import e, exp, floor, log, sqrt

from idaq.theory.families import TabularFamily
from idaq.theory.mdps import minimal_visitation


@dataclass(frozen=True)
class Sizes:
    """H, |S|, |A| and |R|: all that the bounds know of a family."""

    horizon: int
    num_states: int
    num_actions: int
    num_rewards: int

    @staticmethod
    def of(family: TabularFamily) -> "Sizes":
        """The sizes of a family."""
        return Sizes(
            family.horizon, family.num_states, family.num_actions, len(family.reward_values)
        )

    @property
    def table_size(self) -> int:
        """n = |S||A|(|S| + |R|): the numbers in a task's tables."""
        return self.num_states * self.num_actions * (self.num_states + self.num_rewards)

    @property
    def leave_factor(self) -> int:
        """2 H^2 |S|^2 |A| |R|: the factor of the leave bound."""
        return 2 * self.horizon**2 * self.num_states**2 * self.num_actions * self.num_rewards


def rarest_visit(family: TabularFamily) -> float:
    """d_mu at its smallest: the rarest pair that any hypothesis's unlimited data contains."""
    return min(
        float(minimal_visitation(family.mdps[h.task], h.behaviour)) for h in family.hypotheses
    )


# --- Part I: the error of a dataset-induced MDP ---


def concentration_bound(
    sizes: Sizes, *, delta: float, num_trajectories: int, min_visitation: float
) -> float:
    """Lemma 3: |J_D - J| is at most this with probability 1 - delta; its trivial value is H."""
    logs = log(1 / delta) + log(2 * sizes.num_states**2 * sizes.num_actions)
    scale = sizes.horizon**2 * sizes.num_states
    return scale * sqrt(logs / (num_trajectories * min_visitation))


def hoeffding_step(error: float) -> tuple[float, float, float]:
    """For an error epsilon: 1 - exp(-2 epsilon^2), the printed lower bound, the corrected one."""
    square = error**2
    return 1 - exp(-2 * square), square, (1 - exp(-2)) * square


# --- Part II: the closest training task ---


def closest_task_bound_as_printed(table_size: int, *, delta: float, num_tasks: int) -> float:
    """2 (log(1/delta) / m)^(1/n); its trivial value is 1."""
    return float(2 * (log(1 / delta) / num_tasks) ** (1 / table_size))


def closest_task_bound(table_size: int, *, delta: float, num_tasks: int) -> float:
    """2 (1 / (e m delta))^(1/n): exceeded with probability at most delta."""
    return float(2 * (1 / (e * num_tasks * delta)) ** (1 / table_size))


def num_cells(distance: Fraction, dimension: int) -> int:
    """How many half-open cubes of side `distance` cover [0, 1]^n."""
    per_side: int = floor(1 / distance) + 1
    return int(per_side**dimension)


def pair_distance_bound(distance: Fraction, dimension: int) -> Fraction:
    """Lemma 9: P[max |X_i - Y_i| >= epsilon] <= 1 - (epsilon / 2)^n."""
    return 1 - (distance / 2) ** dimension


def missed_distance_bound(distance: Fraction, dimension: int, num_tasks: int) -> Fraction:
    """P[no training task within epsilon] <= C w (1 - w)^m at the worst weight w = 1/(m + 1)."""
    worst = Fraction(1, num_tasks + 1)
    return num_cells(distance, dimension) * worst * (1 - worst) ** num_tasks


# --- Both parts ---


@dataclass(frozen=True)
class LeaveBound:
    """The two terms of the bound on the leave probability, and the factor before them."""

    factor: int
    data_term: float
    task_term: float

    @property
    def value(self) -> float:
        """The bound; its trivial value is 1."""
        return self.factor * (self.data_term + self.task_term)

    def __str__(self) -> str:
        """The bound with its two terms."""
        return f"{self.factor} ({self.data_term:.3g} + {self.task_term:.3g}) = {self.value:.3g}"


def leave_bound_as_printed(
    family: TabularFamily, *, delta: float, num_tasks: int, num_trajectories: int
) -> LeaveBound:
    """Lemma 5 as printed."""
    sizes = Sizes.of(family)
    logs = log(1 / delta) + log(2 * sizes.num_states**2 * sizes.num_actions)
    return LeaveBound(
        sizes.leave_factor,
        sqrt(logs / (num_trajectories * rarest_visit(family))),
        closest_task_bound_as_printed(sizes.table_size, delta=delta, num_tasks=num_tasks),
    )


def leave_bound(
    family: TabularFamily, *, delta: float, num_tasks: int, num_trajectories: int
) -> LeaveBound:
    """Lemma 5 corrected: exceeded with probability at most 2 delta."""
    sizes = Sizes.of(family)
    frequencies = sizes.num_states * sizes.num_actions * (sizes.num_states + sizes.num_rewards)
    logs = log(1 / delta) + log(2 * frequencies)
    return LeaveBound(
        sizes.leave_factor,
        sqrt(logs / (num_trajectories * rarest_visit(family))),
        closest_task_bound(sizes.table_size, delta=delta, num_tasks=num_tasks),
    )
