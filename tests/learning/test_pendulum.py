"""SAC solves Gymnasium's Pendulum."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from idaq.behaviour.config import BehaviourConfig
from idaq.behaviour.sac import SacConfig
from idaq.behaviour.training import train_policies
from idaq.types import Spec
from tests.host_fakes import InlinePool

NUM_STARTS = 10  # an evaluation's episodes


@dataclass(frozen=True)
class Pendulum:
    """One task, named several times so that an evaluation has several starts."""

    name: str = "pendulum"
    version: int = 1
    num_tasks: int = NUM_STARTS

    @property
    def spec(self) -> Spec:
        return Spec(obs_dim=3, action_dim=1, action_low=(-2.0,), action_high=(2.0,), horizon=200)

    @property
    def task_params(self) -> NDArray[np.float32]:
        return np.zeros((NUM_STARTS, 1), np.float32)

    def check_simulator(self) -> None:
        """Nothing is missing."""

    def make_env(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        return gymnasium.make("Pendulum-v1", render_mode=render_mode)


@pytest.mark.slow
def test_pendulum_is_solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean return above -200 over ten starts; uniform actions return about -1,200."""
    monkeypatch.setattr("idaq.behaviour.training.WorkerPool", lambda workers: InlinePool())
    config = BehaviourConfig(
        sac=SacConfig(
            policy_hidden=(64, 64),
            critic_hidden=(64, 64),
            learning_rate=1e-3,
            batch_size=128,
            reward_scale=0.1,
        ),
        num_rounds=50,
        episodes_per_round=2,
        updates_per_round=400,
        replay_rounds=50,
        random_rounds=2,
        evaluate_every_rounds=10,
    )
    ladder = train_policies(Pendulum(), tmp_path / "policies", config, quiet=True)
    assert ladder.rungs[0].mean_return < -800.0
    assert ladder.rungs[-1].mode_return > -200.0
    assert ladder.best.mean_return > -200.0
