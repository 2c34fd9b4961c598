"""Small simulators for worker processes, units of work that misbehave, and a pool without workers.

Everything here is imported by name in spawned processes.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from idaq.engine.pool import WorkerPool
from idaq.engine.units import Unit
from idaq.types import Array, PyTree, Spec, Traits
from tests import fakes

HORIZON = 6
OBS_DIM, ACTION_DIM = 3, 2
MAX_ACTION = 0.5
REACHED = 0.25

Float = NDArray[np.float32]


@dataclass(frozen=True)
class Walk:
    """A point walks to the task's goal; the seed decides where it starts.

    An episode of task i is over after `lengths[i]` steps: it terminates if `terminates[i]`, and is
    truncated otherwise. Both tuples are repeated for as many tasks as there are. The observation is
    the position and the number of steps. `log` names a file that gets a line per episode: task,
    seed and process. `fatal` names a file that is made in the first episode of task 1; making it
    kills the worker. A step takes `seconds`.
    """

    num_tasks: int = 5
    lengths: tuple[int, ...] = (HORIZON, 1, 4, 3)
    terminates: tuple[bool, ...] = (False, True, True, False)
    log: str = ""
    fatal: str = ""
    seconds: float = 0.0
    name: str = "walk"
    version: int = 1

    @property
    def spec(self) -> Spec:
        return Spec(
            obs_dim=OBS_DIM,
            action_dim=ACTION_DIM,
            action_low=(-MAX_ACTION,) * ACTION_DIM,
            action_high=(MAX_ACTION,) * ACTION_DIM,
            horizon=HORIZON,
            has_success=True,
        )

    @property
    def traits(self) -> Traits:
        is_set = self.name.startswith("ml1/")
        return Traits(group="ml1", measure="score") if is_set else Traits()

    @property
    def task_params(self) -> Float:
        angle = np.arange(self.num_tasks, dtype=np.float32)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def length(self, task: int) -> int:
        return self.lengths[task % len(self.lengths)]

    def is_terminal(self, task: int) -> bool:
        return self.terminates[task % len(self.terminates)]

    def check_simulator(self) -> None:
        """Nothing is missing."""

    def make_env(self, render_mode: str | None = None) -> "WalkEnv":
        return WalkEnv(self)

    def make_expert(self, env: gymnasium.Env[Any, Any]) -> "WalkExpert":
        simulator = env.unwrapped
        assert isinstance(simulator, WalkEnv)
        return WalkExpert(simulator)


class WalkEnv(gymnasium.Env[Float, Float]):
    """The simulator of `Walk`. Only the start is random, and it is drawn from the seed."""

    def __init__(self, family: Walk) -> None:
        self.family = family
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS_DIM,), np.float32)
        self.action_space = gymnasium.spaces.Box(-MAX_ACTION, MAX_ACTION, (ACTION_DIM,), np.float32)
        self.task, self.steps = -1, 0
        self.position = np.zeros(2, np.float32)

    @property
    def goal(self) -> Float:
        place: Float = self.family.task_params[self.task]
        return place

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float, dict[str, Any]]:
        super().reset(seed=seed)
        assert options is not None
        self.task, self.steps = options["task"], 0
        self.position = start_of(self.np_random)
        if self.family.log:
            with Path(self.family.log).open("a") as file:
                file.write(f"{self.task} {seed} {os.getpid()}\n")
        return self._obs(), {"success": False}

    def step(self, action: Float) -> tuple[Float, float, bool, bool, dict[str, Any]]:
        time.sleep(self.family.seconds)
        self.position = self.position + np.clip(action, -MAX_ACTION, MAX_ACTION)
        self.steps += 1
        if self.family.fatal and self.task == 1:
            die_once(Path(self.family.fatal))
        distance = float(np.linalg.norm(self.position - self.goal))
        is_over = self.steps >= self.family.length(self.task)
        terminated = is_over and self.family.is_terminal(self.task)
        info = {"success": distance < REACHED}
        return self._obs(), 1.0 - distance, terminated, is_over and not terminated, info

    def _obs(self) -> Float:
        return np.append(self.position, self.steps).astype(np.float32)


def start_of(generator: np.random.Generator) -> Float:
    """Where an episode starts."""
    return generator.uniform(-0.1, 0.1, 2).astype(np.float32)


class WalkExpert:
    """Walks straight to the goal, with noise."""

    def __init__(self, env: WalkEnv) -> None:
        self.env = env

    def reset(self) -> None:
        self.noise = 0.05 if self.env.steps == 0 else np.nan  # the simulator was reset before

    def act(self, obs: Float, info: dict[str, Any], rng: np.random.Generator) -> Float:
        wanted = self.env.goal - obs[:2] + self.noise * rng.standard_normal(2)
        return np.clip(wanted, -MAX_ACTION, MAX_ACTION).astype(np.float32)


@dataclass(frozen=True)
class HostTargets(fakes.Targets):
    """`fakes.Targets` as a simulator, with the same episodes as the JAX functions give."""

    name: str = "host-targets"

    def check_simulator(self) -> None:
        """Nothing is missing."""

    def make_env(self, render_mode: str | None = None) -> "TargetsEnv":
        return TargetsEnv(self)

    def make_expert(self, env: gymnasium.Env[Any, Any]) -> Any:
        raise NotImplementedError


class TargetsEnv(gymnasium.Env[Float, Float]):
    """The simulator of `HostTargets`."""

    def __init__(self, family: HostTargets) -> None:
        self.family = family

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float, dict[str, Any]]:
        assert options is not None
        self.task, self.steps = options["task"], 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Float) -> tuple[Float, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        distance = float(np.linalg.norm(action - self.family.task_params[self.task]))
        lengths = self.family.lengths or (fakes.HORIZON,) * self.family.num_tasks
        terminated = self.steps >= lengths[self.task]
        info = {"success": distance < 0.5}
        return np.full(1, self.steps, np.float32), -distance, terminated, False, info


@dataclass(frozen=True)
class Remembers:
    """A policy whose memory depends on the order in which its three functions are called."""

    gain: float = 0.25

    def init_carry(self, params: PyTree, hypothesis: PyTree) -> PyTree:
        return {"memory": hypothesis + params["bias"], "calls": jnp.zeros(())}

    def act(
        self, params: PyTree, hypothesis: PyTree, carry: PyTree, obs: Array, key: Array
    ) -> tuple[Any, PyTree]:
        noise = 0.01 * jax.random.normal(key, (ACTION_DIM,))
        action = jnp.tanh(carry["memory"] + params["weight"] * obs[:ACTION_DIM]) * self.gain
        after = {"memory": 0.5 * carry["memory"] + obs[2], "calls": carry["calls"] + 1.0}
        return action + noise, after

    def take_reward(self, params: PyTree, carry: PyTree, reward: Array) -> PyTree:
        return carry | {"memory": carry["memory"] * reward + carry["calls"]}


def remembering_agents(num: int) -> PyTree:
    """`num` different agents of `Remembers`, along a leading axis."""
    return {
        "bias": np.linspace(-0.4, 0.3, num, dtype=np.float32)[:, None] * np.ones(2, np.float32),
        "weight": np.linspace(0.5, 1.5, num, dtype=np.float32),
    }


class InlinePool(WorkerPool):
    """Runs units in this process, and keeps a list of them."""

    def __init__(self, num_workers: int = 1) -> None:
        super().__init__(num_workers)
        self.units: list[Any] = []

    def __del__(self) -> None:
        self.close()

    def results(self, units: Iterable[Unit[Any]]) -> Iterator[Any]:
        for unit in units:
            self.units.append(unit)
            yield unit.run()

    @property
    def num_episodes(self) -> int:
        """How many episodes of agents have been run."""
        return sum(len(unit.rows) for unit in self.units)


@dataclass(frozen=True)
class Echo:
    """Returns its value and the process that ran it, after some seconds."""

    value: int
    seconds: float = 0.0

    def run(self) -> tuple[int, int]:
        time.sleep(self.seconds)
        return self.value, os.getpid()


@dataclass(frozen=True)
class DiesOnce:
    """Makes a file and kills its process; if the file is there already, it is an `Echo`."""

    value: int
    marker: str

    def run(self) -> tuple[int, int]:
        die_once(Path(self.marker))
        return self.value, os.getpid()


def die_once(marker: Path) -> None:
    """Make a file and kill this process, unless the file is there already."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class AlwaysDies:
    """Kills every process that runs it."""

    log: str

    def run(self) -> None:
        with Path(self.log).open("a") as file:
            file.write(f"{os.getpid()}\n")
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Raises:
    """Fails with an ordinary exception."""

    message: str

    def run(self) -> None:
        raise ArithmeticError(self.message)


@dataclass(frozen=True)
class Waits:
    """Writes to a file which process runs it, and does not end by itself."""

    log: str

    def run(self) -> None:
        with Path(self.log).open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(600.0)


def pids_in(log: Path) -> list[int]:
    """The processes that a log names, each at the end of a line."""
    text = log.read_text() if log.exists() else ""
    return [int(line.split()[-1]) for line in text.splitlines(keepends=True) if line[-1] == "\n"]


def await_pids(log: Path, num: int, seconds: float = 60.0) -> list[int]:
    """Wait until a log names `num` processes, and return them."""
    end = time.monotonic() + seconds
    while len(found := pids_in(log)) < num:
        assert time.monotonic() < end, f"{log} names {found}"
        time.sleep(0.02)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def all_gone(pids: Iterable[int], seconds: float = 15.0) -> bool:
    """Whether processes end within some seconds."""
    end = time.monotonic() + seconds
    pids = list(pids)
    while any(map(is_alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
