"""Cells: what is done is not done again, what changed is, and a failure stays where it is."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from idaq.adapt.methods import make_adapter
from idaq.algos.entries import OBJECTIVES, make_algorithm
from idaq.behaviour import collect as data_collect
from idaq.bench import stages
from idaq.bench.cells import Cell, data_place, error_place, make_cells, run_place
from idaq.bench.engines import local
from idaq.bench.experiments import SCALES, get_experiment
from idaq.bench.progress import BenchProgress, duration
from idaq.bench.runner import check_outcome, run_cells
from idaq.bench.stages import run_cell
from idaq.bench.status import status_of
from idaq.bench.tables import make_table, render
from idaq.envs import FAMILIES
from idaq.errors import IdaqError
from idaq.runs import adapt_stage, train_stage
from idaq.runs.run import Run
from idaq.storage import checked
from tests.bench.small import TINY, leftovers, numbers
from tests.program import tree

EXPERIMENT = "mujoco-expert-context"  # IDAQ and expert context on both Point-Robots


def cells(**options: Any) -> list[Cell]:
    return make_cells(get_experiment(EXPERIMENT), "smoke", **{"only": "focal", **options})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> Path:
    """A finished benchmark; not to be changed."""
    place = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCALES, "smoke", TINY)
        patch.setattr("idaq.engine.provenance.git_state", lambda: None)
        statuses = run_cells(place, cells(), quiet=True)
    assert [status.state for status in statuses.values()] == ["done", "done"]
    return place


@pytest.fixture
def copy(whole: Path, tmp_path: Path, tiny: None) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "bench"))


def states(results: Path, of: list[Cell] | None = None) -> list[str]:
    return [status_of(results, cell).state for cell in of or cells()]


# --- Done is done ---------------------------------------------------------------------------


def test_nothing_is_done_twice(copy: Path) -> None:
    before = tree(copy)
    statuses = run_cells(copy, cells(), quiet=True)
    assert [status.state for status in statuses.values()] == ["done", "done"]
    assert tree(copy) == before


def test_fewer_seeds_are_there_and_more_are_added(copy: Path, whole: Path) -> None:
    before = tree(copy)
    run_cells(copy, cells(seeds=1), quiet=True)
    assert tree(copy) == before
    more = cells(seeds=3, only="point-robot/focal")
    assert states(copy, more) == ["started"]
    run_cells(copy, more, quiet=True)
    assert states(copy, more) == ["done"]
    after = numbers(copy)
    raw = {name: value for name, value in numbers(whole).items() if name.endswith(".npz")}
    assert raw.items() <= after.items(), "what was there is as it was"
    assert len(after) == len(numbers(whole)) + 3


def test_agents_and_data_may_go_when_the_results_are_there(copy: Path) -> None:
    for file in [*copy.rglob("agent.safetensors"), *copy.glob("data/*/*")]:
        file.unlink()
    for directory in copy.glob("data/*/"):
        directory.rmdir()
    assert states(copy) == ["done", "done"]
    more = cells(seeds=3, only="point-robot/focal")
    run_cells(copy, more, quiet=True)
    assert states(copy, more) == ["done"], "the data is collected again, and is the same"


def test_a_status_builds_one_algorithm_and_reads_no_manifest(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again and again while a benchmark waits."""
    seen: list[str] = []
    read_bytes = checked.read_bytes

    def reading(file: Path, *arguments: Any) -> bytes:
        seen.append(file.name)
        return read_bytes(file, *arguments)

    def making(*arguments: Any) -> Any:
        seen.append("algorithm")
        return make_algorithm(*arguments)

    monkeypatch.setattr(checked, "read_bytes", reading)
    monkeypatch.setattr("idaq.runs.recipe.make_algorithm", making)
    cell = cells()[0]
    assert status_of(copy, cell).state == "done"
    assert seen.count("algorithm") == 1
    assert seen.count("run.json") == 0
    assert seen.count("config.json") == len(cell.adaptations) > 1


# --- Content addresses ----------------------------------------------------------------------


def test_another_configuration_is_another_cell(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run_place(copy, cells()[0])
    changed = replace(TINY, run=(*TINY.run, "algorithm.latent_dim=3"))
    monkeypatch.setitem(SCALES, "smoke", changed)
    after = run_place(copy, cells()[0])
    assert before is not None
    assert after is not None
    assert before.path != after.path
    assert states(copy) == ["started", "started"], "the data is the same"


def test_other_trajectories_are_other_data(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCALES, "smoke", replace(TINY, trajectories=3))
    assert states(copy) == ["to do", "to do"]


class NextVersion:
    """A family that gives other results than before."""

    def __init__(self, family: Any) -> None:
        self._family = family
        self.version = family.version + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._family, name)


def test_a_raised_version_of_the_family(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = data_place(copy, cells()[0])
    newer: Any = NextVersion(FAMILIES["point-robot"])
    monkeypatch.setitem(FAMILIES.added, "point-robot", newer)
    assert data_place(copy, cells()[0]) != old
    assert states(copy) == ["to do", "done"]


def test_a_raised_version_of_the_algorithm(copy: Path) -> None:
    newer = replace(OBJECTIVES[cells()[0].algorithm], version=99)
    with OBJECTIVES.registered(newer):
        assert states(copy) == ["started", "started"]
    assert states(copy) == ["done", "done"]


def test_a_raised_version_of_an_adapter_is_adapted_again(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the agents that are there."""

    def newer(*arguments: Any) -> Any:
        made = make_adapter(*arguments)
        return replace(made, version=99) if arguments[0] == "idaq-return" else made  # type: ignore[type-var]

    for place in ("idaq.bench.status", "idaq.runs.adapt_stage"):
        monkeypatch.setattr(f"{place}.make_adapter", newer)
    agents = {file: file.stat().st_mtime_ns for file in copy.rglob("agent.safetensors")}
    assert states(copy) == ["started", "started"]
    run_cells(copy, cells(), quiet=True)
    assert states(copy) == ["done", "done"]
    configs = [json.loads(f.read_text()) for f in copy.rglob("adapt/idaq-return/config.json")]
    assert [config["version"] for config in configs] == [99, 99]
    assert {file: file.stat().st_mtime_ns for file in agents} == agents


def test_other_data_is_another_cell(copy: Path) -> None:
    cell = cells()[0]
    place = data_place(copy, cell)
    description = place.with_name(f"{place.name}.json")
    before = run_place(copy, cell)
    description.write_text(description.read_text().replace('"sha256": "', '"sha256": "0'))
    after = run_place(copy, cell)
    assert before is not None
    assert after is not None
    assert after.path != before.path


# --- Half a cell ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lost", ["adapt/expert-context", "seeds", "cells", "data", "cells/*/adapt/*/seed-001.npz"]
)
def test_half_a_cell_is_completed(copy: Path, whole: Path, lost: str) -> None:
    for found in [*copy.glob(lost), *copy.glob(f"cells/*/{lost}")]:
        shutil.rmtree(found) if found.is_dir() else found.unlink()
    if lost == "seeds":
        for results in copy.glob("cells/*/adapt"):
            shutil.rmtree(results)
    run_cells(copy, cells(), quiet=True)
    assert numbers(copy) == numbers(whole)
    assert not list(leftovers(copy))


def test_one_cell_by_itself(tmp_path: Path, whole: Path, tiny: None) -> None:
    for cell in cells():
        assert run_cell(tmp_path, cell) is None
    assert numbers(tmp_path) == numbers(whole)


# --- Failures -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [IdaqError("The training diverged.", "Lower it."), KeyError("x")])
def test_a_cell_that_fails_stops_no_other(
    tmp_path: Path, whole: Path, tiny: None, monkeypatch: pytest.MonkeyPatch, kind: Exception
) -> None:
    first = cells()[0]

    def train(run: Run, dataset: Any, *rest: Any) -> None:
        if dataset.family == first.family:
            raise kind
        train_stage.train(run, dataset, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(stages, "train", train)
        statuses = run_cells(tmp_path, cells(), quiet=True)
    assert [status.state for status in statuses.values()] == ["failed", "done"]
    record = json.loads(error_place(tmp_path, first).read_text())
    assert record["error"] in statuses[first].note
    assert (record["traceback"] is None) == isinstance(kind, IdaqError)
    with pytest.raises(IdaqError, match=r"1 of 2 cells failed. point-robot/focal: "):
        check_outcome(statuses)
    assert run_cells(tmp_path, cells(), quiet=True)[first].state == "done"
    assert not error_place(tmp_path, first).exists()
    assert numbers(tmp_path) == numbers(whole)


def test_data_that_cannot_be_collected(
    tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collect(family: Any, *rest: Any, **options: Any) -> None:
        if family.name == "point-robot":
            raise IdaqError("The simulator is broken.", "Mend it.")
        whole_collect(family, *rest, **options)

    whole_collect = data_collect.collect
    monkeypatch.setattr(stages, "collect", collect)
    statuses = run_cells(tmp_path, cells(), quiet=True)
    assert [status.state for status in statuses.values()] == ["failed", "done"]


# --- Two runners ----------------------------------------------------------------------------


def test_two_runners_share_the_work(tmp_path: Path, whole: Path, tiny: None) -> None:
    outcomes: list[list[str]] = []

    def work() -> None:
        found = run_cells(tmp_path, cells(), quiet=True)
        outcomes.append([status.state for status in found.values()])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [["done", "done"]] * 2
    assert numbers(tmp_path) == numbers(whole)


def test_a_cell_that_another_process_holds(
    copy: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is seen to be running, others go first, and it is taken over when it is let go."""
    held = run_place(copy, cells()[0])
    assert held is not None
    for results in copy.glob("cells/*/adapt"):
        shutil.rmtree(results)
    order: list[str] = []
    adapt = adapt_stage.adapt

    def watched(run: Run, *rest: Any, **options: Any) -> None:
        order.append(run.path.name)
        adapt(run, *rest, **options)

    monkeypatch.setattr(stages, "adapt", watched)
    with held.locked():
        assert states(copy) == ["running", "started"]
        runner = threading.Thread(target=run_cells, args=(copy, cells()), kwargs={"quiet": True})
        runner.start()
        while states(copy) != ["running", "done"]:
            threading.Event().wait(0.05)
        assert held.path.name not in order
    runner.join()
    assert states(copy) == ["done", "done"]
    assert order[-1] == held.path.name
    assert numbers(copy) == numbers(whole)


# --- Progress -------------------------------------------------------------------------------


def test_progress_counts_and_estimates(
    tiny: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("idaq.bench.progress.time.monotonic", lambda: clock[0])
    first, second = cells()
    progress = BenchProgress([first, second], done_before=3)
    progress.reporter(first)("training", 0.0)
    assert progress.line() == "3/5 cells done, 1 running"
    clock[0] += 60.0
    progress.finished(first, None)
    assert progress.line() == "4/5 cells done, about 60 s left"
    progress.reporter(second)("adapting, idaq-return", 0.5)
    assert "about 20 s left" in progress.line(), "it is half through"
    progress.finished(second, IdaqError("It broke.", "Mend it."))
    assert progress.line() == "4/5 cells done, 1 failed"
    said = capsys.readouterr().err.splitlines()
    assert said[1].endswith("point-robot/focal: done in 60 s")
    assert said[-1].endswith("point-robot-sparse/focal: FAILED: It broke. Mend it.")


@pytest.mark.parametrize(("seconds", "text"), [(3.2, "3 s"), (125.0, "2 min"), (9000.0, "2.5 h")])
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_no_thread_is_left(copy: Path) -> None:
    shutil.rmtree(copy / "cells")
    local.run_local(copy, cells(), BenchProgress(cells(), quiet=True))
    assert not [t for t in threading.enumerate() if t.name.startswith(("collect", "adapt"))]


# --- What cannot be read ------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"sha256": 7}', b'{"sha256": NaN}'])
def test_a_damaged_description_fails_its_cell_alone(copy: Path, content: bytes) -> None:
    description = data_place(copy, cells()[0]).with_suffix(".json")
    description.write_bytes(content)
    first, second = (status_of(copy, cell) for cell in cells())
    assert (first.state, second.state) == ("failed", "done")
    assert str(description) in first.note
    table = render(make_table(get_experiment(EXPERIMENT), copy, cells()), "md")
    assert str(description) in table


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"error": {}}', b'{"error": "' + b"x" * 9_000])
def test_a_damaged_error_is_no_error_of_the_benchmark(copy: Path, content: bytes) -> None:
    (cell,) = cells(only="point-robot/focal", seeds=3)
    error_place(copy, cell).parent.mkdir(exist_ok=True)
    error_place(copy, cell).write_bytes(content)
    status = status_of(copy, cell)
    assert status.state == "failed"
    assert str(error_place(copy, cell)) in status.note


@pytest.mark.parametrize("damage", [b"x", b""])
def test_damaged_results_leave_out_their_column_alone(copy: Path, damage: bytes) -> None:
    run = run_place(copy, cells()[0])
    assert run is not None
    file = run.result_file("idaq-return", 1)
    file.write_bytes(damage)
    made = make_table(get_experiment(EXPERIMENT), copy, cells())
    (row, other), (column, context, *_) = made.rows, made.columns
    assert made.entry(row, column).values is None
    assert str(file) in made.entry(row, column).note
    for entry in (made.entry(row, context), made.entry(other, column)):
        assert entry.values is not None
