"""What is checked of a dataset is checked everywhere, up to its last row."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.errors import IdaqError
from idaq.storage import dataset as store
from idaq.storage.dataset import open_dataset, write_dataset
from idaq.types import Spec
from tests.storage.test_dataset import LENGTHS, METADATA, TASKS, arrays

NUM_LONG = store.CHECK_BLOCK_ROWS + 10  # rows, more than are looked at in one go
FLOATS = ("observations", "actions", "rewards", "next_observations")
SPEC = Spec(obs_dim=3, action_dim=2, action_low=(-1, -1), action_high=(1, 1), horizon=max(LENGTHS))


def long_logs() -> dict[str, Any]:
    """Three episodes, the last of which is short."""
    matrix, vector = np.zeros((NUM_LONG, 1), np.float32), np.zeros(NUM_LONG, np.float32)
    names = dict.fromkeys(FLOATS, matrix) | {"rewards": vector}
    offsets = np.asarray([0, 5, NUM_LONG - 3, NUM_LONG])
    never = np.zeros(NUM_LONG, bool)
    logs = {**names, "terminated": never, "truncated": never, "episode_offsets": offsets}
    return {name: value.copy() for name, value in logs.items()} | {"episode_task": np.arange(3)}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("row", [0, store.CHECK_BLOCK_ROWS, NUM_LONG - 1])
def test_a_value_that_is_no_number_is_found_wherever_it_is(
    tmp_path: Path, name: str, row: int
) -> None:
    logs = long_logs()
    logs[name][row] = np.nan if row else -np.inf
    with pytest.raises(IdaqError, match=rf"'{name}' .* NaN or infinite at row {row}\."):
        write_dataset(tmp_path / "data", logs, METADATA)
    assert list(tmp_path.iterdir()) == []


def test_the_last_of_many_columns_is_looked_at(tmp_path: Path) -> None:
    logs = arrays(LENGTHS, TASKS)
    logs["next_observations"][7, 2] = np.nan
    with pytest.raises(IdaqError, match=r"'next_observations' .* at row 7\."):
        write_dataset(tmp_path / "data", logs, METADATA)


def test_an_episode_is_as_long_as_the_horizon_at_most(tmp_path: Path) -> None:
    """The longest is the last of five."""
    write_dataset(tmp_path / "data", arrays(LENGTHS, TASKS), METADATA)
    for horizon in (max(LENGTHS), max(LENGTHS) + 1):
        open_dataset(tmp_path / "data", replace(SPEC, horizon=horizon))
    with pytest.raises(IdaqError, match=r"Episode 4 .* has 5 steps.*\n?.*horizon is 4"):
        open_dataset(tmp_path / "data", replace(SPEC, horizon=max(LENGTHS) - 1))


def test_the_first_task_without_episodes_is_named(tmp_path: Path) -> None:
    for tasks, absent in (([0, 0, 1, 1, 1], 2), ([0, 0, 2, 2, 2], 1), ([1, 1, 1, 2, 2], 0)):
        with pytest.raises(IdaqError, match=f"Task {absent} in .* has no episodes"):
            write_dataset(tmp_path / "data", arrays(LENGTHS, tasks), METADATA)


def test_a_success_is_of_its_own_episode(tmp_path: Path) -> None:
    """At an episode's last step and at the first step of another."""
    success = np.zeros(sum(LENGTHS), bool)
    success[[3, 5]] = True  # the ends of the first episode and the start of the third
    write_dataset(tmp_path / "data", arrays(LENGTHS, TASKS) | {"success": success}, METADATA)
    found = open_dataset(tmp_path / "data", SPEC).episode_success()
    assert found is not None
    assert found.tolist() == [True, False, True, False, False]
