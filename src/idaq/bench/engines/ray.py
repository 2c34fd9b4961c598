"""Cells on a Ray cluster: one task per cell, on a results directory that all nodes share.

A task whose node or worker is lost is run again elsewhere; since it finds the checkpoints of the
first attempt, little is computed twice. Results are the same as with the local engine.
"""

import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from idaq.bench.cells import Cell
from idaq.bench.choices import CPUS_PER_CELL, GPUS_PER_CELL
from idaq.bench.progress import BenchProgress
from idaq.bench.stages import run_cell
from idaq.bench.status import status_of
from idaq.engine.device import enable_compile_cache
from idaq.engine.provenance import source_hash
from idaq.engine.stopping import check_stopped
from idaq.errors import IdaqError

MAX_PER_CELL = 1_000  # CPUs or GPUs
MAX_LOSSES = 20  # of nodes or workers, per cell
SECONDS_BETWEEN_LOOKS = 2.0


def run_ray(
    results: Path,
    cells: Sequence[Cell],
    progress: BenchProgress,
    *,
    address: str | None = None,
    cpus_per_cell: float = CPUS_PER_CELL,
    gpus_per_cell: float = GPUS_PER_CELL,
    workers: int = 0,
) -> None:
    """Run cells on a cluster until each is done or has failed."""
    for argument, value in (("cpus", cpus_per_cell), ("gpus", gpus_per_cell)):
        if not 0 <= value <= MAX_PER_CELL:
            limits = f"Give 0 to {MAX_PER_CELL:,}."
            raise IdaqError(f"`{argument}_per_cell` is {value:g}.", limits)
    ray = _connect(address)
    try:
        resources = {"num_cpus": cpus_per_cell, "num_gpus": gpus_per_cell}
        _check_resources(ray, resources)
        task = ray.remote(max_retries=MAX_LOSSES, **resources)(_run_on_node)
        place, processes = str(results.resolve()), workers or max(1, int(cpus_per_cell))
        waiting = {task.remote(place, cell, processes, source_hash()): cell for cell in cells}
        while waiting:
            check_stopped()
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
            for reference in ready:
                cell = waiting.pop(reference)
                progress.finished(cell, _outcome(ray, reference, results, cell))
            for cell in waiting.values():
                if not progress.is_running(cell) and status_of(results, cell).state == "running":
                    progress.reporter(cell)("running on the cluster", 0.0)
    finally:
        ray.shutdown()


def _connect(address: str | None) -> Any:
    try:
        import ray
    except ImportError as error:
        raise IdaqError(
            "Ray is not installed.", "Install it with `pip install idaq[ray]`."
        ) from error
    if address is not None and ":" in address:
        _check_answers(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise IdaqError(
            f"There is no Ray cluster at '{address}' ({error}).",
            "Start one with `ray start --head`, or leave `address` out.",
        ) from error
    return ray


def _check_answers(address: str) -> None:
    """Raise an error soon if nothing answers; Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10.0).close()
    except (OSError, ValueError, OverflowError) as error:
        raise IdaqError(
            f"Nothing answers at '{address}' ({error}).",
            "Start a cluster with `ray start --head`, or leave `address` out.",
        ) from error


def _check_resources(ray: Any, resources: dict[str, float]) -> None:
    """Raise an error at once for what would make every cell wait for ever."""
    total = ray.cluster_resources()
    for name, resource in (("num_cpus", "CPU"), ("num_gpus", "GPU")):
        if resources[name] > total.get(resource, 0.0):
            raise IdaqError(
                f"A cell asks for {resources[name]:g} {resource}s and the whole cluster has "
                f"{total.get(resource, 0.0):g}.",
                f"Lower `{resource.lower()}s_per_cell`, or add a node.",
            )


def _run_on_node(results: str, cell: Cell, workers: int, source: str) -> str | None:
    if source != source_hash():
        return f"Node '{socket.gethostname()}' has another idaq. Install this one on all nodes."
    enable_compile_cache()
    return run_cell(Path(results), cell, workers=workers)


def _outcome(ray: Any, reference: Any, results: Path, cell: Cell) -> Exception | None:
    """The error that ended a cell, if one did."""
    try:
        error = ray.get(reference)
    except ray.exceptions.RayError as lost:
        return IdaqError(
            f"Ray could not run it ({type(lost).__name__}).",
            "Look at the cluster's own log. All nodes need the same idaq.",
        )
    if error is not None:
        return RuntimeError(error)
    if status_of(results, cell).state != "done":
        return IdaqError(
            f"The node's results do not appear in '{results}'.",
            "Put `results` on a file system that all nodes share.",
        )
    return None
