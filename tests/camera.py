"""A simulator with a camera that needs no graphics, and a run on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from idaq.algos.entries import make_algorithm
from idaq.config import override, to_dict
from idaq.envs.family import Expert
from idaq.runs import replay
from idaq.runs.api import adapt_all
from idaq.runs.directory import RunDir
from idaq.runs.resolve import resolve
from idaq.runs.run import Run
from idaq.storage import checkpoint
from idaq.storage.atomic import write_json
from idaq.types import Spec
from tests.fakes import write_manifest
from tests.program import NETWORKS

SIDE = 24  # pixels of a made-up picture
HORIZON = 7
METHOD = "idaq-return"
SPEC = Spec(
    obs_dim=1,
    action_dim=1,
    action_low=(-1.0,),
    action_high=(1.0,),
    horizon=HORIZON,
    has_success=True,
)


@pytest.fixture(autouse=True)
def fresh_probe() -> Iterator[None]:
    """Forget what was found out about MuJoCo's rendering on this machine."""
    replay._offscreen_gl.cache_clear()
    yield
    replay._offscreen_gl.cache_clear()


def empty_run(path: Path, family: str, config: dict[str, Any] | None = None) -> RunDir:
    run = RunDir(path)
    write_manifest(run, family, config=config)
    return run


class Lamp(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """A picture's brightness shows the step; rewards depend on task, seed and action."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.task, self.step_index = int((options or {})["task"]), 0
        return np.zeros(1, np.float32), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.step_index += 1
        reward = self.task + float(action[0]) + float(self.np_random.uniform())
        obs = np.full(1, self.step_index, np.float32)
        return obs, reward, False, False, {"success": self.step_index >= 3}

    def render(self) -> Any:
        return np.full((SIDE, SIDE, 3), 10 * self.step_index, np.uint8)


@dataclass(frozen=True)
class Lamps:
    name: str = "lamps"
    version: int = 1
    num_tasks: int = 35  # of which seven are for testing: a batch of five and one of two
    spec: Spec = SPEC

    @property
    def task_params(self) -> NDArray[np.float32]:
        return np.arange(self.num_tasks, dtype=np.float32)[:, None]

    def check_simulator(self) -> None:
        """Nothing is missing."""

    def make_env(self, render_mode: str | None = None) -> Lamp:
        return Lamp()

    def make_expert(self, env: Any) -> Expert:
        raise NotImplementedError


@pytest.fixture
def lamps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A run on lamps whose agent was never trained, with results."""
    monkeypatch.setattr(replay, "_offscreen_gl", lambda wanted: "none")
    config = resolve("default", "point-robot")
    settings = [word for word in NETWORKS if "=" in word]
    settings += ["adapt.num_reference_episodes=3", "adapt.num_iterative_episodes=2"]
    for setting in settings:
        config = override(config, setting)
    run = empty_run(tmp_path / "run", "lamps", to_dict(config))
    write_json(run.groups_file, [[0]])
    algorithm = make_algorithm(config.algorithm, SPEC)
    rng = np.random.default_rng(0)
    shapes = algorithm.agent_shapes(28)
    agent = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), shapes)
    checkpoint.save(run.agent_file(0), agent, {"seed": 0})
    opened = Run.open(run, Lamps())
    adapt_all(opened, METHOD, workers=1)
    return opened
