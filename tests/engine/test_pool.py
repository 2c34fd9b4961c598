"""Worker processes: every unit's result once and in order, whichever dies; no process is left."""

import multiprocessing.popen_spawn_posix as popen
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from idaq.behaviour.collect import collect
from idaq.engine.pool import MAX_WORKERS, WorkerPool, default_workers
from idaq.engine.rollout import HostRollouts
from idaq.engine.units import Unit
from idaq.errors import IdaqError
from tests import tiny
from tests.host_fakes import (
    AlwaysDies,
    DiesOnce,
    Echo,
    Raises,
    Remembers,
    Waits,
    Walk,
    all_gone,
    await_pids,
    is_alive,
    pids_in,
    remembering_agents,
)
from tests.program import results


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """Two workers that the tests of this file share; no test closes it."""
    with WorkerPool(2) as workers:
        yield workers


def test_results_come_in_the_order_of_the_units(pool: WorkerPool) -> None:
    """The first units take longest, so they end last."""
    units = [Echo(value, 0.2 if value < 2 else 0.0) for value in range(12)]
    found = list(pool.results(units))
    assert [value for value, _ in found] == list(range(12))
    workers = {pid for _, pid in found}
    assert len(workers) == 2
    assert os.getpid() not in workers


def test_no_units_no_workers() -> None:
    with WorkerPool(2) as pool:
        assert list(pool.results([])) == []
        assert pool._executor is None


def test_units_are_taken_as_they_are_needed(pool: WorkerPool) -> None:
    """Neither the units of a long list nor their results are made in advance."""
    taken = []

    def units() -> Iterator[Echo]:
        for value in range(1000):
            taken.append(value)
            yield Echo(value)

    running = pool.results(units())
    assert next(running)[0] == 0
    assert len(taken) <= 8


def test_threads_share_a_pool(pool: WorkerPool) -> None:
    found: dict[int, list[int]] = {}

    def run(first: int) -> None:
        units = [Echo(first + value, 0.01) for value in range(10)]
        found[first] = [value for value, _ in pool.results(units)]

    threads = [threading.Thread(target=run, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert found == {first: list(range(first, first + 10)) for first in (0, 100, 200)}


def test_an_exception_in_a_unit_reaches_the_caller(pool: WorkerPool) -> None:
    """Results before it are given, the workers live on, and it is not tried again."""
    before = {pid for _, pid in pool.results([Echo(0, 0.1), Echo(1, 0.1)])}
    units: list[Any] = [Echo(7), Raises("a unit's own mistake"), Echo(8)]
    running = pool.results(units)
    assert next(running)[0] == 7
    with pytest.raises(ArithmeticError, match="a unit's own mistake"):
        next(running)
    assert {pid for _, pid in pool.results([Echo(0, 0.1), Echo(1, 0.1)])} == before


@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_killed_worker_is_replaced(pool: WorkerPool, tmp_path: Path, place: int) -> None:
    """No result is lost or comes twice, whichever unit is hit."""
    units: list[Any] = [Echo(value) for value in range(8)]
    units[place] = DiesOnce(place, str(tmp_path / "died"))
    assert [value for value, _ in pool.results(units)] == list(range(8))
    assert (tmp_path / "died").exists()


def test_many_deaths_with_work_done_in_between(
    pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool gives up only after several deaths in a row."""
    monkeypatch.setattr("idaq.engine.pool.MAX_DEATHS_IN_A_ROW", 2)
    units: list[Any] = []
    for value in range(3):
        units += [DiesOnce(value, str(tmp_path / f"died-{value}")), Echo(100 + value)]
    assert [value for value, _ in pool.results(units)] == [0, 100, 1, 101, 2, 102]
    assert len(list(tmp_path.iterdir())) == 3


def test_units_that_always_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few tries there is an error that says what to do, and no process is left."""
    monkeypatch.setattr("idaq.engine.pool.MAX_DEATHS_IN_A_ROW", 3)
    log = tmp_path / "pids"
    with WorkerPool(1) as pool:
        units: list[Unit[object]] = [AlwaysDies(str(log)), Echo(0)]
        with pytest.raises(IdaqError, match=r"died 3 times in a row.*AlwaysDies.*`workers`"):
            list(pool.results(units))
        tried = pids_in(log)
        assert len(set(tried)) == len(tried) == 3
        assert all_gone(tried)
        ((value, last),) = pool.results([Echo(6)])
        assert value == 6, "the pool itself lives on"
    assert all_gone([last])


def test_close_ends_what_is_running(tmp_path: Path) -> None:
    """A thread that waits for results ends with an error of its own."""
    log, ends = tmp_path / "pids", []
    pool = WorkerPool(2)

    def wait() -> None:
        try:
            list(pool.results([Waits(str(log)) for _ in range(6)]))
        except BaseException as error:
            ends.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    workers = await_pids(log, 2)
    agents = Path(pool.share_agent({"weights": np.ones(3)}))
    assert agents.is_file()
    started = time.monotonic()
    pool.close()
    thread.join(10.0)
    assert not thread.is_alive()
    assert time.monotonic() - started < 10.0
    assert [type(error) for error in ends] == [CancelledError]
    assert all_gone(workers)
    assert pids_in(log) == workers, "nothing was begun again"
    assert not agents.exists()
    assert not agents.parent.exists()
    pool.close()
    with pytest.raises(CancelledError):
        list(pool.results([Echo(0)]))


PROGRAM = """
import sys
from idaq.engine.pool import WorkerPool
from tests.host_fakes import Waits

if __name__ == "__main__":
    list(WorkerPool(2).results([Waits(sys.argv[1]), Waits(sys.argv[1])]))
"""


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """A killed parent cannot end its workers; they end by themselves."""
    script, log = tmp_path / "program.py", tmp_path / "pids"
    script.write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, str(script), str(log)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(tmp_path),  # it cannot remove what it leaves
        },
    )
    workers = await_pids(log, 2)
    assert len(set(workers)) == 2
    assert all(map(is_alive, workers))
    process.kill()
    process.wait(30.0)
    assert all_gone(workers)


@pytest.mark.parametrize("num", [-1, MAX_WORKERS + 1, 10**9])
def test_impossible_numbers_of_workers(num: int) -> None:
    with pytest.raises(IdaqError, match=rf"`workers` is {num}\."):
        WorkerPool(num)


def test_as_many_workers_as_cores_by_default() -> None:
    with WorkerPool() as pool:
        assert pool.num_workers == default_workers() == len(os.sched_getaffinity(0))


FAMILY = Walk(num_tasks=7)


def _rollouts(pool: WorkerPool, family: Walk = FAMILY) -> Any:
    """Episodes of two agents on seven tasks."""
    rng = np.random.default_rng(0)
    hypotheses = rng.normal(size=(2, 7, 2)).astype(np.float32)
    keys = jax.random.split(jax.random.key(3), (2, 7))
    tasks = np.tile(np.arange(7), (2, 1))
    rollouts = HostRollouts(family, Remembers(), pool)
    return rollouts.run(remembering_agents(2), hypotheses, tasks, keys)


def test_results_do_not_depend_on_the_number_of_workers(pool: WorkerPool, tmp_path: Path) -> None:
    """Collection and episodes of agents are the same, byte for byte."""
    with WorkerPool(1) as one, WorkerPool(3) as three:
        pools = (one, pool, three)
        for each in pools:
            place = tmp_path / f"{each.num_workers}"
            collect(FAMILY, place, trajectories=2, pool=each, quiet=True)
        found = [_rollouts(each) for each in pools]
    assert results(tmp_path / "1") == results(tmp_path / "2") == results(tmp_path / "3")
    assert tiny.same(found[0], found[1])
    assert tiny.same(found[0], found[2])
    assert found[0].valid.sum() > 14, "episodes took place"


def test_deaths_leave_no_trace_in_results(pool: WorkerPool, tmp_path: Path) -> None:
    """A worker dies during an episode of an expert, then during one of an agent."""
    deadly = replace(FAMILY, fatal=str(tmp_path / "marker-1"))
    for family in (FAMILY, deadly):
        place = tmp_path / ("died" if family.fatal else "whole")
        collect(family, place, trajectories=2, pool=pool, quiet=True)
    assert results(tmp_path / "whole") == results(tmp_path / "died")
    assert (tmp_path / "marker-1").exists()
    deadly = replace(FAMILY, fatal=str(tmp_path / "marker-2"))
    assert tiny.same(_rollouts(pool), _rollouts(pool, deadly))
    assert (tmp_path / "marker-2").exists()


def test_close_while_a_worker_is_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    begun, make = threading.Event(), popen.Popen.__init__

    def slow(self: Any, process: Any) -> None:
        make(self, process)
        started.append(self.pid)
        begun.set()
        time.sleep(0.3)  # the executor does not know this process yet

    monkeypatch.setattr(popen.Popen, "__init__", slow)
    pool, ends = WorkerPool(1), []

    def wait() -> None:
        try:
            list(pool.results([Waits(str(tmp_path / "log"))]))
        except CancelledError as error:
            ends.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert begun.wait(30.0)
    pool.close()
    thread.join(10.0)
    assert len(ends) == 1
    assert all_gone(started, 3.0)
