"""The collection stage of a run: its own dataset, if it is not given one."""

import time
from pathlib import Path

from idaq.behaviour.collect import collect as collect_dataset
from idaq.engine.pool import WorkerPool
from idaq.runs.run import Run
from idaq.settings import DEFAULT_QUALITY, Quality
from idaq.storage.dataset import Dataset


def collect(
    run: Run,
    pool: WorkerPool,
    *,
    trajectories: int,
    seed: int = 0,
    quality: Quality = DEFAULT_QUALITY,
    policies: Path | None = None,
    quiet: bool = False,
) -> Dataset:
    """The run's own dataset, collected if it is not there yet."""
    place = run.directory.data
    if not place.exists():
        started = time.monotonic()
        collect_dataset(
            run.family,
            place,
            trajectories=trajectories,
            seed=seed,
            quality=quality,
            policies=policies,
            pool=pool,
            quiet=quiet,
        )
        run.record_time("collect_s", time.monotonic() - started)
    return run.open_data(place)
