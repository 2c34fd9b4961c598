"""A family without an environment can be trained on, and that is said where it cannot be more."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from idaq.behaviour.collect import collect
from idaq.behaviour.config import behaviour_config
from idaq.config import override
from idaq.envs import FAMILIES
from idaq.envs.family import check_environment, is_family, is_jax_family, traits_of
from idaq.errors import IdaqError
from idaq.runs.api import adapt_all, run_all, train_all
from idaq.runs.resolve import resolve
from idaq.runs.train_stage import Seeds
from idaq.storage.dataset import write_dataset
from idaq.types import Spec
from tests.program import NETWORKS

NUM_TASKS, HORIZON = 10, 4
SPEC = Spec(obs_dim=2, action_dim=1, action_low=(-1.0,), action_high=(1.0,), horizon=HORIZON)


@dataclass(frozen=True)
class Logs:
    """Ten tasks of which there are logs alone."""

    name: str = "logs"
    version: int = 1
    num_tasks: int = NUM_TASKS
    spec: Spec = SPEC

    @property
    def task_params(self) -> NDArray[np.float32]:
        return np.arange(NUM_TASKS, dtype=np.float32)[:, None]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng, num = np.random.default_rng(0), NUM_TASKS * HORIZON
    ends = np.arange(num) % HORIZON == HORIZON - 1
    arrays = {
        "observations": rng.normal(size=(num, 2)),
        "actions": rng.uniform(-1.0, 1.0, (num, 1)),
        "rewards": rng.normal(size=num),
        "next_observations": rng.normal(size=(num, 2)),
        "terminated": np.zeros(num, bool),
        "truncated": ends,
        "episode_offsets": np.arange(NUM_TASKS + 1) * HORIZON,
        "episode_task": np.arange(NUM_TASKS),
    }
    write_dataset(tmp_path / "data", arrays, {"family": "logs", "num_tasks": NUM_TASKS})
    return tmp_path / "data"


def test_it_is_a_family_and_none_of_jax() -> None:
    assert is_family(Logs())
    assert FAMILIES.accepts(Logs())
    assert not is_jax_family(Logs())
    traits = traits_of(Logs())
    assert (traits.has_environment, traits.simulator, traits.horizon) == (False, False, HORIZON)
    assert traits_of(FAMILIES["point-robot"]).has_environment


def test_it_trains_and_says_why_it_does_not_adapt(data: Path, tmp_path: Path) -> None:
    config = resolve("default", Logs())
    for setting in (word for word in NETWORKS if "=" in word):
        config = override(config, setting)
    config = override(config, "train.num_updates=2")
    options = {"family": Logs(), "config": config, "quiet": True}
    run = train_all(tmp_path / "run", data, seeds=Seeds(count=1), **options)  # type: ignore[arg-type]
    assert run.directory.agent_file(0).is_file()
    with pytest.raises(IdaqError, match="'logs' has no environment"):
        adapt_all(run, "posterior")
    assert run.directory.adapt_names() == []


def test_nothing_is_begun_where_an_environment_is_needed(tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="'logs' has no environment"):
        collect(Logs(), tmp_path / "data")
    with pytest.raises(IdaqError, match="'logs' has no environment"):
        run_all(tmp_path / "run", Logs(), quiet=True)
    with pytest.raises(IdaqError, match="no environment to train behaviour policies in"):
        behaviour_config(Logs())
    with pytest.raises(IdaqError, match="'logs' has no environment"):
        check_environment(Logs())
    assert list(tmp_path.iterdir()) == []
