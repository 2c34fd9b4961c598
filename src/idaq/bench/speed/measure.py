"""`idaq bench speed`: how fast this machine trains and adapts, against its own matmul rate.

Every figure is a ratio within one run: the single-precision matrix-product rate is measured
beside each case, and a case's rate is its operations (as its entry counts them) over its time.
The cases are those that the algorithms' entries name, also the entries from outside the package;
and of what else came from outside, the default algorithm with every learner, beside every judge
and on every family.
"""

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from rich import box
from rich.table import Table

from idaq.adapt.methods import make_adapter
from idaq.algos.base import Algorithm
from idaq.algos.data import EpisodeIndex, SeedData, SharedData, TrainData, identity_normaliser
from idaq.algos.entries import (
    ALGORITHMS,
    AnyAlgorithm,
    SpeedCase,
    default_algorithm,
    label_of,
    make_algorithm,
)
from idaq.algos.resolve import resolve, without_judge
from idaq.behaviour.config import behaviour_config
from idaq.behaviour.replay import Replay, empty_replay
from idaq.behaviour.sac import Sac
from idaq.behaviour.training import run_updates as run_sac_updates
from idaq.bench.speed.profile import KINDS, seconds_by_kind
from idaq.bench.speed.stepping import NUM_SIMULATORS, measure_stepping
from idaq.config import Json, override
from idaq.engine.meta_test import evaluate
from idaq.engine.provenance import library_versions
from idaq.engine.rollout import make_rollouts
from idaq.engine.train import new_state, one_seed, run_updates
from idaq.envs import FAMILIES, get_family
from idaq.envs.family import traits_of
from idaq.errors import IdaqError
from idaq.judges.base import JUDGES
from idaq.learners.base import LEARNERS
from idaq.settings import AdaptConfig, AlgorithmConfig
from idaq.types import Spec, Transition

MATMUL_SIZE = 2048
MATMUL_REPEATS = 8
ADAPTATION_REPEATS = 5
NUM_TASKS, ROWS_PER_TASK = 40, 2_000
ONLINE = ("cheetah-vel", "ml1/sweep")  # families whose behaviour policies SAC learns
PROFILED_UPDATES = 20
MODELS = " + models"  # ends the name of a case with models
SAC_UPDATES = 20  # timed for each of a meta-learner's, which take much longer

SHAPES = {"point": ("Point", "point-robot"), "ml1": ("ML1", "ml1/push")}  # group: label, family


@dataclass(frozen=True)
class Case:
    """What is measured: an algorithm on data of a family's shapes."""

    name: str
    shapes: str
    spec: Spec
    config: AlgorithmConfig
    authors_seconds: float | None = None


def cases() -> list[Case]:
    """Those of every algorithm, then those of other parts from outside the package."""
    own = [_case(entry, each) for entry in ALGORITHMS.values() for each in entry.speed_cases]
    return [*own, *_cases_of_learners(), *_cases_of_judges(), *_cases_of_families()]


def _case(entry: AnyAlgorithm, case: SpeedCase) -> Case:
    label, family = SHAPES.get(case.group) or _first_of_group(entry, case.group)
    config = resolve(case.preset, family, entry.name)
    config = config if case.with_judge else without_judge(config)
    for setting in case.settings:
        config = override(config, setting)
    name = f"{case.label or entry.label} ({case.preset}), {label}"
    return Case(
        name=name + MODELS * case.with_judge,
        shapes=case.group,
        spec=get_family(family).spec,
        config=config.algorithm,
        authors_seconds=case.authors_seconds,
    )


def _first_of_group(entry: AnyAlgorithm, group: str) -> tuple[str, str]:
    """A label and a family for a group from outside."""
    for family in FAMILIES.values():
        if traits_of(family).group == group:
            return family.name, family.name
    raise IdaqError(
        f"A speed case of '{entry.name}' is for the group '{group}', and no family is of it.",
        f"Name one of {', '.join(SHAPES)}, or the group of a registered family.",
    )


def _cases_of_learners() -> list[Case]:
    family = get_family(SHAPES["point"][1])
    default = without_judge(resolve("default", family))
    label = label_of(default.algorithm.kind)
    return [
        Case(
            name=f"{label} with {entry.label} (default), Point",
            shapes="point",
            spec=family.spec,
            config=override(default, f"algorithm.learner.kind={entry.name}").algorithm,
        )
        for entry in LEARNERS.values()
        if not LEARNERS.is_built_in(entry.name)
    ]


def _cases_of_judges() -> list[Case]:
    family = get_family(SHAPES["point"][1])
    default = resolve("default", family)
    label = label_of(default.algorithm.kind)
    return [
        Case(
            name=f"{label} and {entry.label} (default), Point",
            shapes="point",
            spec=family.spec,
            config=override(default, f"algorithm.judge.kind={entry.name}").algorithm,
        )
        for entry in JUDGES.values()
        if not JUDGES.is_built_in(entry.name)
    ]


def _cases_of_families() -> list[Case]:
    label = label_of(default_algorithm())
    return [
        Case(
            name=f"{label} (default), {family.name}",
            shapes=family.name,
            spec=family.spec,
            config=without_judge(resolve("default", family)).algorithm,
        )
        for family in FAMILIES.values()
        if not FAMILIES.is_built_in(family.name)
    ]


Result = TypeVar("Result")


def measure(num_updates: int) -> Json:
    """All figures as plain values."""
    device = jax.devices()[0]
    learners = [row for case in cases() for row in _measure_case(case, num_updates)]
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


def _measure_case(case: Case, num_updates: int) -> list[Json]:
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


def update_operations(algorithm: Algorithm) -> int | None:
    """Floating-point operations of one update, in the algorithm's phase; None if nobody counts."""
    count = ALGORITHMS[algorithm.name].operations
    return None if count is None else count(algorithm)


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
        lambda: evaluate(rollouts, adapter, agents, tasks, keys), ADAPTATION_REPEATS
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
    one = identity_normaliser(spec.obs_dim)
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
    seed = SeedData(
        train_tasks=jnp.arange(NUM_TASKS),
        normaliser=one,
        start_std=jnp.ones(spec.obs_dim),
        unrelated=jnp.zeros(spec.obs_dim, bool),
        mean_return=jnp.zeros(()),
    )
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


def speed_tables(result: Json) -> list[Table]:
    """The figures of `measure` as tables for people."""
    learners = _table(
        f"Meta-updates on {result['device']}",
        ("learner, shapes", "s/update", "updates/s", "GFLOP", "of matmul", "authors' s"),
    )
    for row in result["learners"]:
        authors = row["authors_seconds_per_update"]
        learners.add_row(
            row["name"],
            f"{row['seconds_per_update']:.4f}",
            f"{row['updates_per_second']:,.1f}",
            _or_dash(row["gflop_per_update"], "{:.1f}"),
            _or_dash(row["share_of_matmul"], "{:.0%}"),
            _or_dash(authors, "{:.2f}"),
        )
    models = result["models_alone"]
    rate = statistics.mean(row["matmul_gflop_s"] for row in result["learners"])
    learners.caption = (
        f"matmul rate of this machine: {rate:,.0f} GFLOP/s\n"
        f"the 4 + 4 models alone: {models['seconds_per_update']:.3f} s/update, "
        f"{models['share_of_matmul']:.0%} of the matmul rate"
    )
    profiles = _table("Where their time goes", ("learner, shapes", *KINDS, "rate"))
    for row in result["learners"]:
        if profile := row.get("profile"):
            shares = [f"{profile['shares'][kind]:.0%}" for kind in KINDS]
            rate_text = _or_dash(profile["products_share_of_matmul"], "{:.0%}")
            profiles.add_row(row["name"], *shares, rate_text)
    profiles.caption = "rate: of the matmul rate, while in products"
    adaptation = _table(
        "IDAQ adaptation on Point-Robot",
        ("tasks at once", "environment steps", "µs per step, all included"),
    )
    for row in result["adaptation"]:
        adaptation.add_row(
            str(row["tasks"]), f"{row['steps']:,}", f"{row['microseconds_per_step']:.1f}"
        )
    memory = ", ".join(f"{k} {v:,.0f} MB" for k, v in result["peak_memory_mb"].items())
    adaptation.caption = f"authors' code: 110 to 144 µs overhead per step\npeak memory: {memory}"
    stepping = _table(
        "Simulators in worker processes", ("family", "workers", "steps/s", "one worker", "of all")
    )
    for row in result["stepping"]:
        stepping.add_row(
            row["family"],
            str(row["workers"]),
            f"{row['steps_s']:,.0f}",
            f"{row['one_worker_steps_s']:,.0f}",
            f"{row['share_of_all_cores']:.0%}",
        )
    if len(result["stepping"]) < NUM_SIMULATORS:
        stepping.caption = "the others are not installed: idaq[metaworld], idaq[mujoco]"
    return [learners, *([profiles] if profiles.rows else []), adaptation, stepping]


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True)
    return table
