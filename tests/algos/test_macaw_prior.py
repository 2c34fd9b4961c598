"""MACAW's prior: each training task's policy is adapted to all of its rows, however many."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.algos.macaw.outer import Macaw
from tests import tiny

MACAW = Macaw(tiny.MACAW, tiny.SPEC)


def adapted(rows_of_task: Any, task: int) -> Any:
    """The prior of a task where other tasks' rows and its own are as given."""
    data = tiny.data()
    state = MACAW.init(data, jax.random.key(0))
    changed = data.replaced(rows=data.rows._replace(action=rows_of_task))
    agent = MACAW.finish(state, changed)
    return np.asarray(agent.prior[tiny.TRAIN_TASKS.index(task)])


@pytest.mark.parametrize("task", tiny.TRAIN_TASKS)
def test_every_row_counts(task: int) -> None:
    """Also the last one of the longest task, and none of another."""
    starts = np.concatenate([[0], np.cumsum(tiny.TASK_COUNTS)])
    action = jnp.asarray(tiny.data().rows.action)
    before = adapted(action, task)
    for row in (starts[task], starts[task + 1] - 1):
        assert not np.array_equal(before, adapted(action.at[row].multiply(-1.0), task))
    for row in (starts[task] - 1, starts[task + 1]):
        if row >= 0:
            after = adapted(action.at[row].multiply(-1.0), task)
            np.testing.assert_array_equal(before, after)
