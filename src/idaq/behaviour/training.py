"""Train the behaviour policies of a family with SAC: one policy for all of its tasks.

A round is a number of whole episodes, each on a task drawn at random, and beside them a number of
updates on the rounds before. Both start from the same policy, so that simulators and learner work
at the same time, and an episode depends on the policy, the task and a key alone. Between two rounds
the networks, the optimisers, the replay and the round's number are therefore the whole state: a
training that is killed goes on from its last save and ends bit-identical.

Every few rounds the policy is evaluated on all tasks and kept as a rung of the ladder
(`idaq.behaviour.ladder`).
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from idaq.algos.data import scale_action
from idaq.behaviour.collect import scripted_episodes
from idaq.behaviour.config import BehaviourConfig, behaviour_config
from idaq.behaviour.ladder import (
    Ladder,
    Rung,
    conditions,
    load_ladder,
    read_rungs,
)
from idaq.behaviour.replay import Replay, add_rows, empty_replay
from idaq.behaviour.sac import Sac, SacState
from idaq.behaviour.uniform import UniformPolicy
from idaq.config import Json, to_dict
from idaq.engine.policy import Policy
from idaq.engine.pool import WorkerPool
from idaq.engine.progress import ProgressBar
from idaq.engine.provenance import find_provenance
from idaq.engine.rollout import make_rollouts
from idaq.engine.stopping import check_stopped, is_stopping
from idaq.engine.updates import repeat
from idaq.envs import get_family
from idaq.envs.family import (
    TaskFamily,
    check_environment,
    check_seed,
    has_scripted_expert,
    is_host_family,
    traits_of,
)
from idaq.errors import IdaqError
from idaq.storage import checkpoint
from idaq.storage.atomic import remove
from idaq.storage.checked import below, is_number, is_object, list_of, or_none
from idaq.storage.claim import claimed
from idaq.storage.layout import LADDER_FILE, POLICIES
from idaq.storage.metrics import MetricsLog
from idaq.types import Array, Episodes, IntArray, Key, Metrics, PyTree, Spec, Transition

INIT_STREAM, UPDATE_STREAM, EPISODE_STREAM, EVALUATION_STREAM = range(4)
STATE_FILE = "state.safetensors"


class TrainingState(NamedTuple):
    """Everything that the rounds to come depend on, but for their number."""

    learner: SacState
    replay: Replay


@dataclass(frozen=True)
class Training:
    """What is trained, and on what."""

    family: TaskFamily
    config: BehaviourConfig
    seed: int
    pool: WorkerPool

    @cached_property
    def sac(self) -> Sac:
        return Sac(self.config.sac, self.family.spec, self.conditions.shape[1])

    @cached_property
    def conditions(self) -> NDArray[np.float32]:
        return conditions(self.family)

    @property
    def rows_per_round(self) -> int:
        return self.config.episodes_per_round * self.family.spec.horizon

    def key(self, stream: int, number: int = 0) -> Key:
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), stream), number)

    def start(self) -> TrainingState:
        config, rows = self.config, self.rows_per_round
        return TrainingState(
            learner=self.sac.init(self.key(INIT_STREAM)),
            replay=empty_replay(
                self.family.spec,
                config.replay_rounds * rows,
                self.conditions,
                num_kept=config.demonstration_rounds * rows,
            ),
        )

    def episodes(self, policy: Policy, agent: PyTree, tasks: IntArray, key: Key) -> Episodes:
        """One episode of each task in a row, [n, horizon, ...]."""
        rollouts = make_rollouts(self.family, policy, self.pool)
        one_agent = jax.tree.map(lambda x: np.asarray(x)[None], agent)
        keys = jax.random.split(key, len(tasks))
        episodes = rollouts.run(one_agent, self.conditions[tasks][None], tasks[None], keys[None])
        if is_host_family(self.family):  # every round has an agent of its own
            self.pool.forget_agent(self.pool.share_agent(agent))
        return Episodes(*(np.asarray(field)[0] for field in episodes))

    def round_episodes(self, number: int, policy: PyTree) -> tuple[Episodes, IntArray]:
        """The episodes of a round and their tasks."""
        rng = np.random.default_rng([self.seed, EPISODE_STREAM, number])
        config, num_tasks = self.config, self.family.num_tasks
        passes = -(-config.episodes_per_round // num_tasks)
        order = np.concatenate([rng.permutation(num_tasks) for _ in range(passes)])
        tasks = order[: config.episodes_per_round]
        if number < config.demonstration_rounds:
            seeds = [(self.seed, EPISODE_STREAM, number, index) for index in range(len(tasks))]
            return scripted_episodes(self.family, tasks, seeds, self.pool), tasks
        key = self.key(EPISODE_STREAM, number)
        if number < config.demonstration_rounds + config.random_rounds:
            return self.episodes(UniformPolicy(self.family.spec), (), tasks, key), tasks
        return self.episodes(self.sac, policy, tasks, key), tasks

    def evaluate(self, number: int, policy: PyTree, updates: int) -> Rung:
        """One episode of every task with drawn actions, and one with the policy's mode."""
        tasks, key = np.arange(self.family.num_tasks), self.key(EVALUATION_STREAM)
        drawn = self.episodes(self.sac, policy, tasks, key)
        mode = self.episodes(replace(self.sac, acting="mode"), policy, tasks, key)
        success = float(drawn.success.any(axis=1).mean())
        return Rung(
            number=-(-number // self.config.evaluate_every_rounds),  # the last may come early
            updates=updates,
            steps=number * self.rows_per_round,
            mean_return=float(drawn.returns.mean(dtype=np.float64)),
            mode_return=float(mode.returns.mean(dtype=np.float64)),
            success=success if self.family.spec.has_success else None,
        )

    def expert_return(self) -> float | None:
        """The scripted expert's mean return, one episode per task; None where there is none."""
        if not has_scripted_expert(self.family):
            return None
        tasks = np.arange(self.family.num_tasks)
        seeds = [(self.seed, EVALUATION_STREAM, index) for index in range(len(tasks))]
        episodes = scripted_episodes(self.family, tasks, seeds, self.pool)
        return float(episodes.returns.mean(dtype=np.float64))


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def run_updates(
    sac: Sac, learner: SacState, replay: Replay, key: Key, num: int
) -> tuple[SacState, Metrics]:
    """`num` updates in one dispatch; metrics are means over them."""

    def update(learner: SacState, update_key: Key) -> tuple[SacState, Metrics]:
        return sac.update(learner, replay, update_key)

    return repeat(update, learner, key, 0, num)


def block_of_rows(
    spec: Spec, episodes: Episodes, tasks: IntArray
) -> tuple[Transition, NDArray[np.int32]]:
    """Episodes [n, horizon, ...] as n x horizon rows with their tasks.

    Where episodes ended early, rows of the same block fill the place, so that all blocks have one
    size.
    """
    valid = np.flatnonzero(episodes.valid)
    rows = np.resize(valid, episodes.valid.size)

    def flat(field: Array) -> Any:  # NumPy's, until it is written to the ring
        return np.asarray(field).reshape(-1, *field.shape[2:])[rows]

    block = Transition(
        obs=flat(episodes.obs),
        action=scale_action(spec, flat(episodes.action)),
        reward=flat(episodes.reward),
        next_obs=flat(episodes.next_obs),
        terminated=flat(episodes.terminated).astype(np.float32),
    )
    return block, np.repeat(np.asarray(tasks, np.int32), episodes.valid.shape[1])[rows]


def train_policies(
    family: TaskFamily,
    path: Path,
    config: BehaviourConfig,
    *,
    seed: int = 0,
    minutes: float | None = None,
    resume: bool = False,
    workers: int = 0,
    quiet: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Ladder:
    """Train into a new directory, or go on in it; what `idaq behaviour` does.

    After `minutes` (and one round at least) the state is saved and the ladder so far is returned.
    """
    check_seed(seed)
    if minutes is not None and not minutes >= 0:
        raise IdaqError(f"`minutes` is {minutes}.", "Give 0 or more.")
    check_environment(family)
    if config.demonstration_rounds and not has_scripted_expert(family):
        raise IdaqError(
            f"'{family.name}' has no scripted expert to demonstrate anything.",
            "Set demonstration_rounds to 0.",
        )
    identity = {
        "family": family.name,
        "family_version": family.version,
        "algo": "behaviour-sac",
        "algo_version": Sac.version,
        "preset": "behaviour",
        "split": "none",
        "data": {"seed": seed},
        "config": to_dict(config),
    }
    provenance = {"seed": seed, "config": to_dict(config), **find_provenance()}
    with (
        claimed(path, POLICIES, identity, provenance, resume) as manifest,
        WorkerPool(workers) as pool,
    ):
        training = Training(family, config, seed, pool)
        finished = _finished(training, path)
        if finished is not None:
            return finished
        ends = None if minutes is None else time.monotonic() + 60.0 * minutes
        return _train(training, path, manifest["provenance"], ends, quiet, say)


def policies_to_train(name: str, quality: str) -> tuple[TaskFamily, BehaviourConfig] | None:
    """The family whose policies log that data, and the settings to train them with.

    None where no trained policy logs it.
    """
    family = get_family(name)
    if quality == "random" or (quality == "expert" and has_scripted_expert(family)):
        return None
    family = get_family(traits_of(family).policies_of or name)
    return family, behaviour_config(family)


def _train(
    training: Training,
    path: Path,
    provenance: Json,
    ends: float | None,
    quiet: bool,
    say: Callable[[str], None],
) -> Ladder:
    config, family = training.config, training.family
    state, first, rungs, expert_return = _load(training, path)
    number = first
    ladder = Ladder(
        path=path,
        family=family.name,
        family_version=family.version,
        algo_version=training.sac.version,
        sac=config.sac,
        expert_return=expert_return,
        rungs=tuple(rungs),
        provenance=provenance,
    )
    with ExitStack() as stack:
        simulators = stack.enter_context(ThreadPoolExecutor(1, "simulate"))
        stack.callback(training.pool.close)  # comes first: what the thread is waiting for
        log = stack.enter_context(MetricsLog(path, _updates_after(config, number)))
        bar = stack.enter_context(
            ProgressBar(f"training {family.name}", config.num_rounds, "rounds", quiet)
        )
        while True:
            due = number % config.evaluate_every_rounds == 0 or number == config.num_rounds
            # After one round at least, so that even the shortest jobs get there.
            is_over = ends is not None and time.monotonic() >= ends and number > first
            if due:
                ladder = _add_rung(training, ladder, number, state.learner.policy)
                rung = ladder.rungs[-1]
                say(f"round {number}: return {rung.mean_return:.2f}, mode {rung.mode_return:.2f}")
            bar.advance_to(number)
            if due or is_over or is_stopping():
                _save(training, path, state, number, ladder)
                check_stopped()
            if is_over or number == config.num_rounds:
                return ladder
            state, metrics = _round(training, state, number, simulators)
            number += 1
            if metrics:
                log.write(_updates_after(config, number), metrics)


def _round(
    training: Training, state: TrainingState, number: int, simulators: ThreadPoolExecutor
) -> tuple[TrainingState, dict[str, float]]:
    """Episodes by the policy as it is, and updates on the rounds before, at the same time."""
    config = training.config
    policy = jax.tree.map(np.array, state.learner.policy)  # a copy: updates take the buffers
    future = simulators.submit(_simulate, training, number, policy)
    learner, metrics = state.learner, {}
    if number >= config.demonstration_rounds + config.random_rounds:
        learner, metrics = run_updates(
            training.sac,
            learner,
            state.replay,
            training.key(UPDATE_STREAM, number),
            config.updates_per_round,
        )
        metrics = {name: float(value) for name, value in jax.device_get(metrics).items()}
    episodes, tasks = future.result()
    if metrics:
        metrics["episode_return"] = float(episodes.returns.mean(dtype=np.float64))
    rows, row_tasks = block_of_rows(training.family.spec, episodes, tasks)
    return TrainingState(learner, add_rows(state.replay, rows, row_tasks)), metrics


def _simulate(training: Training, number: int, policy: PyTree) -> tuple[Episodes, IntArray]:
    with _beside_the_updates():
        return training.round_episodes(number, policy)


def _beside_the_updates() -> AbstractContextManager[object]:
    """Compute on the CPU: whatever went to a GPU would wait for all the updates there."""
    if jax.default_backend() != "cpu":
        with suppress(RuntimeError):  # JAX_PLATFORMS may leave the CPU out
            cpu: AbstractContextManager[object] = jax.default_device(jax.devices("cpu")[0])
            return cpu
    return nullcontext()


def _updates_after(config: BehaviourConfig, number: int) -> int:
    """How many updates there have been when `number` rounds are over."""
    without = config.demonstration_rounds + config.random_rounds
    return max(0, number - without) * config.updates_per_round


def _add_rung(training: Training, ladder: Ladder, number: int, policy: PyTree) -> Ladder:
    if any(rung.steps == number * training.rows_per_round for rung in ladder.rungs):
        return ladder  # evaluated before it was interrupted
    rung = training.evaluate(number, policy, _updates_after(training.config, number))
    if not np.isfinite(rung.mean_return):
        raise IdaqError("The training diverged.", "Lower the learning rate.")
    ladder.save_rung(rung, policy)
    ladder = replace(ladder, rungs=(*ladder.rungs, rung))
    ladder.save()
    return ladder


def _save(
    training: Training, path: Path, state: TrainingState, number: int, ladder: Ladder
) -> None:
    """The whole state; a finished training needs none."""
    if number == training.config.num_rounds:
        remove(path / STATE_FILE)
        return
    header = {
        "round": number,
        "rungs": [asdict(rung) for rung in ladder.rungs],
        "expert_return": ladder.expert_return,
    }
    checkpoint.save(path / STATE_FILE, state, header)


def _finished(training: Training, path: Path) -> Ladder | None:
    """The ladder of a training that came to its end."""
    if (path / STATE_FILE).is_file() or not (path / LADDER_FILE).is_file():
        return None
    ladder = load_ladder(path, training.family)
    num_steps = training.config.num_rounds * training.rows_per_round
    return ladder if ladder.rungs[-1].steps == num_steps else None


def _load(training: Training, path: Path) -> tuple[TrainingState, int, list[Rung], float | None]:
    """The last save, or a fresh start."""
    state = training.start()
    if not (path / STATE_FILE).is_file():
        return state, 0, [], training.expert_return()
    state, header = checkpoint.load(
        path / STATE_FILE,
        state,
        round=below(training.config.num_rounds),
        rungs=list_of(is_object),
        expert_return=or_none(is_number),
    )
    rungs = read_rungs(header["rungs"], f"The header of '{path / STATE_FILE}'")
    return TrainingState(*state), header["round"], rungs, header["expert_return"]
