"""How fast simulators step: all workers together against one worker times their number."""

import time
from importlib.util import find_spec
from typing import Any

from idaq.envs import ML1_FAMILIES
from idaq.envs.base import ScriptedHostFamily
from idaq.workers import ExpertUnit, WorkerPool, default_workers

FAMILY = "ml1/push"
EPISODES_PER_WORKER = 24
WARM_UP_EPISODES = 4  # per worker: imports, building the simulator


def measure_stepping() -> dict[str, Any] | None:
    """Steps per second of experts that log data; None where the simulator is not installed."""
    if find_spec("metaworld") is None:
        return None
    family, cores = ML1_FAMILIES[FAMILY], default_workers()
    single = _steps_per_second(family, 1)
    together = _steps_per_second(family, cores)
    return {
        "family": family.name,
        "workers": cores,
        "one_worker_steps_s": single,
        "steps_s": together,
        "share_of_all_cores": together / (single * cores),
    }


def _steps_per_second(family: ScriptedHostFamily, workers: int) -> float:
    def units(num: int) -> list[ExpertUnit]:
        return [ExpertUnit(family, n % family.num_tasks, ((0, n, 0),)) for n in range(num)]

    with WorkerPool(workers) as pool:
        for _ in pool.results(units(WARM_UP_EPISODES * workers)):
            pass
        started, steps = time.perf_counter(), 0
        for episodes in pool.results(units(EPISODES_PER_WORKER * workers)):
            steps += int(episodes.valid.sum())
        return steps / (time.perf_counter() - started)
