"""How fast simulators step: all workers together against one worker times their number."""

import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from idaq.behaviour.quality import find_loggers
from idaq.config import Json
from idaq.engine.pool import WorkerPool, default_workers
from idaq.engine.units import UNIT_EPISODES, ExpertUnit, PolicyUnit, Unit
from idaq.envs import CHEETAH_VEL, ML1_FAMILIES
from idaq.types import Episodes

ML1 = "ml1/push"
UNITS_PER_WORKER = 24
WARM_UP_UNITS = 4  # per worker: imports, building the simulator, compiling the policy

Units = Callable[[WorkerPool, int], list[Unit[Episodes]]]


def _ml1_units(pool: WorkerPool, num: int) -> list[Unit[Episodes]]:
    """Episodes of the scripted expert."""
    family = ML1_FAMILIES[ML1]
    return [ExpertUnit(family, n % family.num_tasks, ((0, n, 0),)) for n in range(num)]


def _cheetah_units(pool: WorkerPool, num: int) -> list[Unit[Episodes]]:
    """Episodes of the learned expert, several to a policy call."""
    loggers = find_loggers(CHEETAH_VEL, "expert", None)
    assert loggers is not None
    file = pool.share_agent(loggers.agents[0])
    units: list[Unit[Episodes]] = []
    for number in range(num):
        tasks = (number * UNIT_EPISODES + np.arange(UNIT_EPISODES)) % CHEETAH_VEL.num_tasks
        unit = PolicyUnit(
            family=CHEETAH_VEL,
            policy=loggers.policy,
            agent_file=file,
            hypotheses=loggers.conditions[tasks],
            tasks=tasks,
            keys=np.stack([tasks, np.full(UNIT_EPISODES, number)], axis=1).astype(np.uint32),
            rows=tuple(range(UNIT_EPISODES)),
        )
        units.append(unit)
    return units


SIMULATORS: dict[str, tuple[str, Units]] = {  # family: what it needs installed, work for it
    ML1: ("metaworld", _ml1_units),
    CHEETAH_VEL.name: ("mujoco", _cheetah_units),
}
NUM_SIMULATORS = len(SIMULATORS)


def measure_stepping() -> list[Json]:
    """Steps per second of experts that log data, for every simulator that is installed."""
    rows = []
    for family, (needs, make_units) in SIMULATORS.items():
        if find_spec(needs) is None:
            continue
        cores = default_workers()
        single = _steps_per_second(make_units, 1)
        together = _steps_per_second(make_units, cores)
        rows.append(
            {
                "family": family,
                "workers": cores,
                "one_worker_steps_s": single,
                "steps_s": together,
                "share_of_all_cores": together / (single * cores),
            }
        )
    return rows


def _steps_per_second(make_units: Units, workers: int) -> float:
    with WorkerPool(workers) as pool:
        for _ in pool.results(make_units(pool, WARM_UP_UNITS * workers)):
            pass
        units = make_units(pool, UNITS_PER_WORKER * workers)
        started, steps = time.perf_counter(), 0
        for episodes in pool.results(units):
            steps += int(episodes.valid.sum())
        return steps / (time.perf_counter() - started)
