"""What a task family is.

A family is a named set of tasks with one observation space, one action space and one horizon.
Its functions take a task by *index*; `task_params`, what differs between the tasks, is metadata
for datasets and figures and is never read by an agent, an adapter or the meta-test loop.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from idaq.errors import IdaqError
from idaq.types import Array, Spec, TaskSplit

MAX_SEED = 2**32 - 1
TRAIN_SHARE = 0.8  # of the tasks are for meta-training, the others for meta-testing


class Step(NamedTuple):
    """What one environment step returns."""

    obs: Any  # [obs_dim]
    reward: Any  # []
    terminated: Any  # [] bool
    success: Any  # [] bool


class TaskFamily(Protocol):
    """A set of tasks whose dynamics are pure JAX functions. Instances are hashable."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """Raised whenever the results of this family change."""
        ...

    @property
    def spec(self) -> Spec: ...

    @property
    def num_tasks(self) -> int: ...

    @property
    def task_params(self) -> NDArray[np.float32]:
        """[num_tasks, ...]; for people, not for agents."""
        ...

    def reset(self, task: Array, key: Array) -> tuple[Any, Any]:
        """(environment state, first observation)."""
        ...

    def step(self, task: Array, state: Any, action: Array, key: Array) -> tuple[Any, Step]: ...

    def expert(self, task: Array, obs: Array, key: Array) -> Any:
        """An action of the task's own behaviour policy, which knows the task."""
        ...


def split_tasks(num_tasks: int, seed: int) -> TaskSplit:
    """The 80/20 split of a seed: drawn at random, disjoint, sorted."""
    order = np.random.default_rng([seed, num_tasks]).permutation(num_tasks)
    num_train = round(TRAIN_SHARE * num_tasks)
    return TaskSplit(train=np.sort(order[:num_train]), test=np.sort(order[num_train:]))


def validation_split(num_tasks: int, seed: int) -> TaskSplit:
    """The training tasks of a seed, split once more; test tasks appear on neither side.

    Hyper-parameters are chosen on this split, so that test tasks stay unseen.
    """
    outer = split_tasks(num_tasks, seed)
    inner = split_tasks(len(outer.train), seed)
    return TaskSplit(train=outer.train[inner.train], test=outer.train[inner.test])


def check_seed(seed: int) -> None:
    """Seeds are 32-bit numbers: beyond that, two of them would give the same random numbers."""
    if not 0 <= seed <= MAX_SEED:
        raise IdaqError(f"Seed {seed} is out of range.", f"Give a seed of 0 to {MAX_SEED:,}.")
