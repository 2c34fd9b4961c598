"""`idaq bench speed`: how fast this machine trains and adapts, against its own matmul rate.

Every figure is a ratio within one run: the single-precision matrix-product rate is measured
beside each case, and a case's rate is its operations (as its entry counts them) over its time.
"""

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from idaq.adapt.methods import make_adapter
from idaq.algos.base import Algorithm
from idaq.algos.data import EpisodeIndex, SharedData, TrainData, plain_seed
from idaq.algos.entries import (
    make_algorithm,
)
from idaq.behaviour.config import behaviour_config
from idaq.behaviour.replay import Replay, empty_replay
from idaq.behaviour.sac import Sac
from idaq.behaviour.training import run_updates as run_sac_updates
from idaq.bench.speed.cases import MODELS, Case, cases, update_operations
from idaq.bench.speed.profile import seconds_by_kind
from idaq.bench.speed.stepping import measure_stepping
from idaq.config import Json
from idaq.engine.meta_test import evaluate
from idaq.engine.provenance import library_versions
from idaq.engine.rollout import make_rollouts
from idaq.engine.train import new_state, one_seed, run_updates
from idaq.envs import get_family
from idaq.runs.resolve import resolve
from idaq.settings import AdaptConfig
from idaq.types import Spec, Transition

MATMUL_SIZE = 2048
MATMUL_REPEATS = 8
ADAPTATION_REPEATS = 5
NUM_TASKS, ROWS_PER_TASK = 40, 2_000
ONLINE = ("cheetah-vel", "ml1/sweep")  # families whose behaviour policies SAC learns
PROFILED_UPDATES = 20
SAC_UPDATES = 20  # timed for each of a meta-learner's, which take much longer


Result = TypeVar("Result")


def measure(num_updates: int) -> Json:
    """All figures as plain values."""
    device = jax.devices()[0]
    learners = [row for case in cases() for row in measure_case(case, num_updates)]
    with_models = next(row for row in learners if row["name"].endswith(MODELS))
    alone = with_models["name"].removesuffix(MODELS)
    without = next(row for row in learners if row["name"] == alone)
    models_seconds = with_models["seconds_per_update"] - without["seconds_per_update"]
    models_flops = with_models["gflop_per_update"] - without["gflop_per_update"]
    return {
        "device": f"{device.platform}: {device.device_kind}",
        "versions": library_versions(),
        "learners": [*learners, *(_measure_sac(name, num_updates) for name in ONLINE)],
        "models_alone": {
            "seconds_per_update": models_seconds,
            "gflop_per_update": models_flops,
            "share_of_matmul": models_flops / models_seconds / with_models["matmul_gflop_s"],
        },
        "adaptation": [_measure_adaptation(tasks) for tasks in (1, 20)],
        "stepping": measure_stepping(),
        "peak_memory_mb": _peak_memory_mb(),
    }


def measure_case(case: Case, num_updates: int) -> list[Json]:
    """One row per phase of the algorithm."""
    phases = [algorithm for _, algorithm in make_algorithm(case.config, case.spec).phases]
    return [
        _measure_updates(
            case.name if len(phases) == 1 else f"{case.name}, phase {number}",
            case,
            algorithm,
            num_updates,
        )
        for number, algorithm in enumerate(phases, start=1)
    ]


def _measure_updates(name: str, case: Case, algorithm: Algorithm, num_updates: int) -> Json:
    data, keys = random_data(algorithm.spec), jnp.stack([jax.random.key(0)])
    state = new_state(algorithm, data, keys)
    program = run_updates.lower(algorithm, state, data, keys, 0, 1).compile()
    first, timed = max(1, num_updates // 10), num_updates
    state, _ = _finished(program(state, data, keys, 0, first))
    row = _learner_row(
        name,
        case.shapes,
        lambda: program(state, data, keys, first, timed),
        timed,
        update_operations(algorithm),
        case.authors_seconds,
    )
    fresh = new_state(algorithm, data, keys)
    return row | _profile(row, program, lambda: program(fresh, data, keys, 0, PROFILED_UPDATES))


def _profile(row: Json, program: Any, run: Callable[[], object]) -> Json:
    """Where the time of an update goes, on a CPU only: on a GPU operations overlap."""
    if jax.devices()[0].platform != "cpu":
        return {"profile": None}
    seconds = seconds_by_kind(run, program.as_text())
    shares = {kind: each / sum(seconds.values()) for kind, each in seconds.items()}
    share = row["share_of_matmul"]
    rate = None if share is None else share / shares["products"]
    return {"profile": {"shares": shares, "products_share_of_matmul": rate}}


def _measure_sac(name: str, num_updates: int) -> Json:
    """Updates of the online learner behind behaviour policies, many in one dispatch."""
    family = get_family(name)
    spec = family.spec
    sac = Sac(behaviour_config(family).sac, spec, condition_dim=1)
    replay, timed = random_replay(spec), SAC_UPDATES * num_updates
    state, key = sac.init(jax.random.key(0)), jax.random.key(0)
    state, _ = _finished(run_sac_updates(sac, state, replay, key, SAC_UPDATES))
    return _learner_row(
        f"SAC (online), {name}",
        name,
        lambda: run_sac_updates(sac, state, replay, key, timed),
        timed,
        sac.operations(),
    )


def _learner_row(
    name: str,
    shapes: str,
    run: Callable[[], object],
    num_updates: int,
    operations: int | None,
    authors_seconds: float | None = None,
) -> Json:
    """Time `run`, which makes `num_updates` updates of `operations` operations each."""
    before = matmul_gflop_per_second()
    started = time.perf_counter()
    _finished(run())
    seconds = (time.perf_counter() - started) / num_updates
    matmul = statistics.mean([before, matmul_gflop_per_second()])
    gflop = None if operations is None else operations / 1e9
    return {
        "name": name,
        "shapes": shapes,
        "seconds_per_update": seconds,
        "updates_per_second": 1.0 / seconds,
        "gflop_per_update": gflop,
        "gflop_s": None if gflop is None else gflop / seconds,
        "matmul_gflop_s": matmul,
        "share_of_matmul": None if gflop is None else gflop / seconds / matmul,
        "authors_seconds_per_update": authors_seconds,
    }


def random_replay(spec: Spec) -> Replay:
    """A full replay of the right shapes."""
    data = random_data(spec)
    num = len(data.rows.reward)
    empty = empty_replay(spec, num, jnp.zeros((1, 1)))
    return empty._replace(rows=data.rows, num_written=jnp.asarray(num, jnp.int32))


def matmul_gflop_per_second() -> float:
    """The machine's own rate: a large square single-precision product, median of several."""
    x = jax.random.normal(jax.random.key(0), (MATMUL_SIZE, MATMUL_SIZE))
    product = jax.jit(lambda a: jnp.dot(a, a, precision=jax.lax.Precision.DEFAULT))
    seconds = _median_seconds(lambda: product(x), MATMUL_REPEATS)
    return 2 * MATMUL_SIZE**3 / seconds / 1e9


def _measure_adaptation(num_tasks: int) -> Json:
    """IDAQ on Point-Robot with a fresh default agent: time per environment step, all included."""
    family = get_family("point-robot")
    algorithm = make_algorithm(resolve("default", family).algorithm, family.spec)
    data = random_data(family.spec)
    keys = jnp.stack([jax.random.key(0)])
    state = jax.tree.map(lambda x: x[0], new_state(algorithm, data, keys))
    agents = jax.tree.map(lambda x: x[None], algorithm.finish(state, one_seed(data, 0)))
    adapter = make_adapter("idaq-return", AdaptConfig(), algorithm)
    rollouts = make_rollouts(family, algorithm)
    tasks = jnp.arange(num_tasks)[None]
    seconds = _median_seconds(
        lambda: evaluate(rollouts, adapter, agents, tasks, keys, anytime=False), ADAPTATION_REPEATS
    )
    steps = num_tasks * adapter.num_episodes * family.spec.horizon
    return {"tasks": num_tasks, "steps": steps, "microseconds_per_step": 1e6 * seconds / steps}


def random_data(spec: Spec) -> TrainData:
    """Rows of the right shapes; speed does not depend on what is in them."""
    obs_key, action_key, reward_key, next_key = jax.random.split(jax.random.key(0), 4)
    num = NUM_TASKS * ROWS_PER_TASK
    rows = Transition(
        obs=jax.random.normal(obs_key, (num, spec.obs_dim)),
        action=jax.random.uniform(action_key, (num, spec.action_dim), minval=-1.0),
        reward=jax.random.normal(reward_key, (num,)),
        next_obs=jax.random.normal(next_key, (num, spec.obs_dim)),
        terminated=jnp.zeros(num),
    )
    per_task = ROWS_PER_TASK // spec.horizon
    episodes = EpisodeIndex(
        start=jnp.arange(NUM_TASKS * per_task) * spec.horizon,
        length=jnp.full(NUM_TASKS * per_task, spec.horizon),
        task_start=jnp.arange(NUM_TASKS) * per_task,
        task_count=jnp.full(NUM_TASKS, per_task),
    )
    shared = SharedData(
        rows=rows,
        task_start=jnp.arange(NUM_TASKS) * ROWS_PER_TASK,
        task_count=jnp.full(NUM_TASKS, ROWS_PER_TASK),
        episodes=episodes,
        return_to_go=jax.random.normal(reward_key, (num,)),
    )
    seed = plain_seed(spec, jnp.arange(NUM_TASKS))
    return TrainData(shared, jax.tree.map(lambda x: x[None], seed))


def _median_seconds(run: Callable[[], object], repeats: int) -> float:
    _finished(run())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        _finished(run())
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _finished(result: Result) -> Result:
    """Wait for the device."""
    done: Result = jax.block_until_ready(result)  # type: ignore[no-untyped-call]
    return done


def _peak_memory_mb() -> dict[str, float]:
    peak = {"process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    on_device = jax.devices()[0].memory_stats()
    if on_device:
        peak["device"] = on_device["peak_bytes_in_use"] / 2**20
    return peak
