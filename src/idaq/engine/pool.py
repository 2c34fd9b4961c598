"""Host environments in worker processes: units of whole episodes in, episodes out.

A unit is a batch of episodes with everything that determines them: tasks, seeds, and for an agent
its weights and hypotheses. Workers are spawned, own their simulators, and compute on one thread of
the CPU. A unit's policy calls have one fixed, padded shape, in which each episode has a fixed
place, so results depend neither on the number of workers nor on which worker ran what. When a
worker dies, the pool is replaced and its unfinished units run again, with the same seeds.
"""

import hashlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import wait
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from idaq.engine.policy import Policy
from idaq.envs.family import Expert, HostFamily, Info, ScriptedHostFamily
from idaq.errors import IdaqError
from idaq.storage.atomic import atomic_file
from idaq.storage.scratch import Scratch, remove_abandoned, remove_when_abandoned
from idaq.types import Action, Carry, Episodes, PyTree, Scalar

if TYPE_CHECKING:
    from idaq.envs.family import Simulator

T = TypeVar("T")
Done = TypeVar("Done")
Done_co = TypeVar("Done_co", covariant=True)
Floats = NDArray[np.float32]

UNIT_EPISODES = 5  # of a policy unit: one policy call serves this many simulators
UNITS_PER_WORKER = 2  # in flight, so that no worker waits and little is held in memory
MAX_DEATHS_IN_A_ROW = 5  # of workers, with no unit finished in between
MAX_WORKERS = 1_000
MANAGER_SECONDS = 10  # for a pool's thread to see that its workers were killed
LAST_SECONDS = 2.0  # for a parent to release its locks after its workers have seen it end


class Unit(Protocol[Done_co]):
    """Work for one worker."""

    def run(self) -> Done_co: ...


class _Sent:
    """A unit whose family and policy are one object in a worker, for all units that have them.

    So a worker's simulators and programs serve them all, also where two copies of a family or a
    policy are not equal.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        own = dict(vars(self))
        shared = {each: pickle.dumps(own.pop(each)) for each in ("family", "policy") if each in own}
        return _received, (type(self), shared, own)


def _received(kind: type[T], shared: dict[str, bytes], own: dict[str, Any]) -> T:
    return kind(**own, **{name: _the_one(pickled) for name, pickled in shared.items()})


@lru_cache(maxsize=32)
def _the_one(pickled: bytes) -> Any:
    return pickle.loads(pickled)


@dataclass(frozen=True)
class ExpertUnit(_Sent):
    """Some episodes of one task by its scripted behaviour policy."""

    family: ScriptedHostFamily
    task: int
    seeds: tuple[tuple[int, ...], ...]  # one per episode

    def run(self) -> Episodes:
        env = _simulator(self.family, 0)
        expert = self.family.make_expert(env)
        episodes = [_expert_episode(self.family, env, expert, self.task, s) for s in self.seeds]
        return Episodes(*(np.stack(field) for field in zip(*episodes, strict=True)))


@dataclass(frozen=True)
class PolicyUnit(_Sent):
    """Up to `UNIT_EPISODES` episodes of one agent, each with a task, hypothesis and key.

    Only those in `rows` are run, each in its own row of the policy calls.
    """

    family: HostFamily
    policy: Policy
    agent_file: str
    hypotheses: PyTree  # [n, ...]
    tasks: NDArray[np.int64]  # [n]
    keys: NDArray[np.uint32]  # [n, 2], raw
    rows: tuple[int, ...] = ()

    def run(self) -> Episodes:
        return _policy_episodes(self)


def reset_seed(key: NDArray[np.uint32]) -> int:
    """The simulator's seed for an episode with this raw key."""
    return int(np.random.default_rng(key).integers(2**31))


def _expert_episode(
    family: HostFamily, env: "Simulator", expert: Expert, task: int, seed: tuple[int, ...]
) -> Episodes:
    rng = np.random.default_rng(seed)
    episodes = empty_episodes(family, 1)
    obs, info = env.reset(seed=int(rng.integers(2**31)), options={"task": task})
    expert.reset()
    for step in range(family.spec.horizon):
        action = expert.act(obs, info, rng)
        obs, info, ended = _record_step(episodes, 0, step, env, obs, action)
        if ended:
            break
    return Episodes(*(field[0] for field in episodes))


def empty_episodes(family: HostFamily, num: int) -> Episodes:
    """Empty buffers for `num` episodes."""
    spec, lead = family.spec, (num, family.spec.horizon)
    return Episodes(
        obs=np.zeros((*lead, spec.obs_dim), np.float32),
        action=np.zeros((*lead, spec.action_dim), np.float32),
        reward=np.zeros(lead, np.float32),
        next_obs=np.zeros((*lead, spec.obs_dim), np.float32),
        terminated=np.zeros(lead, bool),
        success=np.zeros(lead, bool),
        valid=np.zeros(lead, bool),
    )


def _record_step(
    episodes: Episodes, row: int, step: int, env: "Simulator", obs: Floats, action: Floats
) -> tuple[Floats, Info, bool]:
    """Step a simulator, record what happened, and tell whether the episode ended."""
    next_obs, reward, terminated, truncated, info = env.step(action)
    values = (obs, action, reward, next_obs, terminated, bool(info.get("success", False)), True)
    for field, value in zip(episodes, values, strict=True):
        field[row, step] = value
    return next_obs, info, bool(terminated or truncated)


def _policy_episodes(unit: PolicyUnit) -> Episodes:
    """The unit's episodes in lockstep, one policy call per step; [rows, horizon, ...]."""
    import jax

    spec = unit.family.spec
    agent = _load_agent(unit.agent_file)
    full = np.minimum(np.arange(UNIT_EPISODES), len(unit.tasks) - 1)  # pad with the last one
    hypotheses = jax.tree.map(lambda x: jax.device_put(np.asarray(x)[full]), unit.hypotheses)
    keys = jax.device_put(unit.keys[full])
    start, choose = _policy_program(unit.policy)
    envs = {row: _simulator(unit.family, row) for row in unit.rows}
    episodes = empty_episodes(unit.family, UNIT_EPISODES)
    obs = np.zeros((UNIT_EPISODES, spec.obs_dim), np.float32)
    reward = np.zeros(UNIT_EPISODES, np.float32)
    for row in unit.rows:
        options = {"task": int(unit.tasks[row])}
        obs[row], _ = envs[row].reset(seed=reset_seed(unit.keys[row]), options=options)
    carry = start(agent, hypotheses)
    running = list(unit.rows)
    for step in range(spec.horizon):
        actions, carry = choose(agent, hypotheses, carry, obs, reward, keys, np.int32(step))
        host_actions, before = np.asarray(actions), obs.copy()
        for row in list(running):
            obs[row], _, ended = _record_step(
                episodes, row, step, envs[row], before[row], host_actions[row]
            )
            reward[row] = episodes.reward[row, step]
            if ended:
                running.remove(row)
        if not running:
            break
    return Episodes(*(field[list(unit.rows)] for field in episodes))


@lru_cache(maxsize=4)
def _policy_program(
    policy: Policy,
) -> tuple[Callable[..., PyTree], Callable[..., tuple[Action, Carry]]]:
    """Functions for the first memory, and for the next action and memory, of a unit's episodes."""
    import jax

    def one(
        agent: PyTree,
        hypothesis: PyTree,
        carry: Carry,
        obs: jax.Array,
        reward: Scalar,
        key: jax.Array,
        step: Scalar,
    ) -> tuple[Action, Carry]:
        after_reward = policy.take_reward(agent, carry, reward)
        carry = jax.tree.map(lambda a, b: jax.numpy.where(step > 0, a, b), after_reward, carry)
        step_key = jax.random.fold_in(jax.random.wrap_key_data(key), step)
        return policy.act(agent, hypothesis, carry, obs, step_key)

    start = jax.jit(jax.vmap(policy.init_carry, in_axes=(None, 0)))
    return start, jax.jit(jax.vmap(one, in_axes=(None, 0, 0, 0, 0, 0, None)))


@lru_cache(maxsize=2 * UNIT_EPISODES)  # for two families whose jobs overlap
def _simulator(family: HostFamily, row: int) -> "Simulator":
    """A worker's own simulator of a family, one per row of its policy calls."""
    return family.make_env()


@lru_cache(maxsize=32)
def _load_agent(file: str) -> PyTree:
    import jax

    with Path(file).open("rb") as stream:
        return jax.tree.map(jax.device_put, pickle.load(stream))


def _start_worker(directory: str) -> None:
    """Runs first in every worker: compute on one CPU thread, and end when the parent has ended.

    `directory` is the pool's: if the parent was killed, the worker removes it. Spawned processes do
    not inherit its lock, which is therefore released when the parent ends.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel, directory), daemon=True).start()
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    import jax

    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]


def _end_with(sentinel: int, directory: str) -> None:
    wait([sentinel])
    try:
        remove_when_abandoned(Path(directory), LAST_SECONDS)
    finally:
        os._exit(1)


def _run(unit: Unit[Done]) -> Done:
    return unit.run()


def default_workers() -> int:
    """One per core that this process may use."""
    return len(os.sched_getaffinity(0))


class WorkerPool:
    """Spawned workers for any number of families; threads may share it.

    `with WorkerPool() as pool: for episodes in pool.results(units): ...`
    """

    def __init__(self, num_workers: int = 0) -> None:
        if not 0 <= num_workers <= MAX_WORKERS:
            raise IdaqError(
                f"`workers` is {num_workers}.", f"Give 1 to {MAX_WORKERS:,}, or 0: one per core."
            )
        self.num_workers = num_workers or default_workers()
        self._lock = threading.Lock()
        self._deaths_in_a_row = 0
        self._closed = False
        self._executor: ProcessPoolExecutor | None = None
        self._starter = ThreadPoolExecutor(1, initializer=_block_interrupts)
        remove_abandoned()  # of pools that were killed before they had workers
        self._scratch = Scratch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; what they were doing is dropped."""
        with self._lock:
            self._closed = True
            self._starter.shutdown()
            if self._executor is not None:
                _kill(self._executor)
                self._executor = None
        self._scratch.close()

    def check_open(self) -> None:
        """Raise `CancelledError` if the pool is closed, so that callers stop waiting."""
        if self._closed:
            raise CancelledError("the worker pool is closed")

    def share_agent(self, agent: PyTree) -> str:
        """Put an agent where the workers can read it; the file is removed with the pool."""
        import jax

        content = pickle.dumps(jax.tree.map(np.asarray, agent))
        file = self._scratch.path / hashlib.sha256(content).hexdigest()
        if not file.exists():
            with atomic_file(file) as temporary:
                temporary.write_bytes(content)
        return str(file)

    def forget_agent(self, file: str) -> None:
        """Remove a shared agent that no unit needs any more."""
        Path(file).unlink(missing_ok=True)

    def results(self, units: Iterable[Unit[Done]]) -> Iterator[Done]:
        """The result of every unit, in order; a few units are in flight at a time."""
        waiting: deque[tuple[Unit[Done], ProcessPoolExecutor, Future[Done]]] = deque()
        todo = iter(units)
        exhausted = False
        while True:
            while not exhausted and len(waiting) < UNITS_PER_WORKER * self.num_workers:
                unit = next(todo, None)
                exhausted = unit is None
                if unit is not None:
                    waiting.append((unit, *self._submit(unit)))
            if not waiting:
                return
            unit, executor, future = waiting.popleft()
            try:
                result = future.result()
            except BrokenProcessPool:
                self._replace(executor, unit)
                waiting.appendleft((unit, *self._submit(unit)))
                continue
            self._deaths_in_a_row = 0
            yield result

    def _submit(self, unit: Unit[Done]) -> tuple[ProcessPoolExecutor, Future[Done]]:
        while True:
            with self._lock:
                self.check_open()
                if self._executor is None:
                    self._executor = ProcessPoolExecutor(
                        self.num_workers,
                        mp_context=multiprocessing.get_context("spawn"),
                        initializer=_start_worker,
                        initargs=(str(self._scratch.path),),
                    )
                executor = self._executor
            try:
                return executor, self._starter.submit(executor.submit, _run, unit).result()
            except BrokenProcessPool:
                self._replace(executor, unit)
            except RuntimeError:  # one of the two was shut down at this very moment
                self.check_open()
                if self._executor is executor:
                    raise

    def _replace(self, broken: ProcessPoolExecutor, unit: Unit[object]) -> None:
        """Drop a pool in which a worker died; only the first caller to notice counts the death."""
        with self._lock:
            if self._executor is not broken:
                return
            _kill(broken)
            self._executor = None
            self._deaths_in_a_row += 1
            if self._deaths_in_a_row >= MAX_DEATHS_IN_A_ROW:
                raise IdaqError(
                    f"Worker processes died {self._deaths_in_a_row} times in a row, the last time "
                    f"at {type(unit).__name__}.",
                    "Is there enough memory? Use fewer `workers`, or see the system log. "
                    "In a script of your own, call idaq under `if __name__ == '__main__':`.",
                )


def _block_interrupts() -> None:
    """Runs first in the thread that starts workers, so that neither it nor they receive Ctrl-C.

    The parent receives it, ends the workers and tells the user how to go on. It must not be
    interrupted while it is starting a worker, or that worker prints a traceback.
    """
    ensure_running()  # if it started later, multiprocessing's tracker would unblock the signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _kill(executor: ProcessPoolExecutor) -> None:
    workers = getattr(executor, "_processes", None)  # `shutdown` forgets both
    manager = getattr(executor, "_executor_manager_thread", None)
    executor.shutdown(wait=False, cancel_futures=True)  # waits for a worker that is being started
    processes = list(workers.values()) if workers is not None else []
    for process in processes:
        process.kill()
    if manager is not None:  # Python's own clean-up at exit fails while this thread is ending
        manager.join(MANAGER_SECONDS)
    for process in processes:
        process.join()
