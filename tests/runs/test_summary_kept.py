"""What is saved in summary.json stays when the results it was computed from are gone."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from idaq.runs.directory import RunDir
from idaq.runs.run import Run
from idaq.runs.summary import summarise, without_results
from idaq.storage.atomic import write_json
from tests.program import Program, data, idaq, no_figures, run, tree
from tests.program import _made as _made
from tests.runs.test_summary_scores import DATA, METHOD, made_run

__all__ = ["data", "idaq", "no_figures", "run"]


def make(place: Path) -> RunDir:
    """A run with results of two methods, one of them under a name of its own."""
    made = made_run(place, finals=[[7.0], [22.0]], tasks=[[0], [1]], success=[[1], [0]], data=DATA)
    shutil.copytree(made.adapt(METHOD), made.adapt("mine"))
    summarise(made)
    return made


def saved(made: RunDir) -> Any:
    return json.loads(made.summary_file.read_text())


def methods(summary: dict[str, Any]) -> list[str]:
    return [row["method"] for row in summary["rows"]]


def test_a_report_without_results_keeps_the_summary(idaq: Program, run: Path) -> None:
    before = (run / "summary.json").read_bytes()
    shutil.rmtree(run / "adapt")
    kept = tree(run)
    for _ in range(2):
        outcome = idaq("report", run, "--json")
        assert outcome.code == 0
        assert json.loads(outcome.out) == json.loads(before)
        assert "expert-context: its results are gone" in outcome.err
        assert tree(run) == kept, "not even written again"
    (run / "summary.json").unlink()
    assert json.loads(idaq("report", run, "--json").out)["rows"] == []


def test_an_adaptation_adds_to_what_is_saved(idaq: Program, run: Path) -> None:
    before = json.loads((run / "summary.json").read_text())
    shutil.rmtree(run / "adapt")
    outcome = idaq("adapt", run, "--method", "expert-context", "--name", "again", "--json")
    assert outcome.code == 0, outcome.err
    after = json.loads((run / "summary.json").read_text())
    assert json.loads(outcome.out) == after
    assert after["rows"][:2] == before["rows"]
    assert methods(after)[2:] == ["again"]


@pytest.mark.parametrize(
    "gone", ["adapt/mine", "adapt/mine/seed-001.npz", "adapt/mine/config.json"]
)
def test_one_method_is_gone(tmp_path: Path, gone: str) -> None:
    made = make(tmp_path)
    before = saved(made)
    assert methods(before) == [METHOD, "mine"]
    shutil.rmtree(tmp_path / gone) if gone == "adapt/mine" else (tmp_path / gone).unlink()
    assert summarise(made) == before == saved(made)
    assert without_results(Run.open(made)) == ["mine"]


def test_seeds_that_are_gone(tmp_path: Path) -> None:
    made = make(tmp_path)
    before = saved(made)
    made.groups_file.unlink()
    assert summarise(made) == before == saved(made)
    assert without_results(Run.open(made)) == [METHOD, "mine"]
    shutil.rmtree(made.path / "adapt")
    assert summarise(made) == before == saved(made)


def test_results_of_other_seeds_are_not_mixed(tmp_path: Path) -> None:
    """One method's results are gone, and the other one has more seeds than the saved summary."""
    made = make(tmp_path)
    before = saved(made)
    shutil.rmtree(made.adapt("mine"))
    shutil.copy(made.result_file(METHOD, 0), made.result_file(METHOD, 2))
    write_json(made.groups_file, [[0], [1], [2]])
    assert methods(summarise(made)) == [METHOD]
    assert saved(made) == before


def test_what_can_be_computed_again_gives_way(tmp_path: Path) -> None:
    """More seeds were trained, and all earlier results are there: the saved rows are replaced."""
    made = make(tmp_path)
    shutil.copy(made.result_file(METHOD, 0), made.result_file(METHOD, 2))
    write_json(made.groups_file, [[0], [1], [2]])
    summary = summarise(made)
    assert methods(summary) == [METHOD]
    assert summary["seeds"] == [0, 1, 2]
    assert saved(made) == summary
    assert without_results(Run.open(made)) == []


def test_scores_outlive_what_they_were_relative_to(tmp_path: Path) -> None:
    made = make(tmp_path)
    before = saved(made)
    assert "score" in before["rows"][0]
    made.dataset_file.unlink()
    assert summarise(made) == before == saved(made)


@pytest.mark.parametrize("is_there", [True, False])
def test_the_quality_is_the_datas_as_long_as_it_is_known(tmp_path: Path, is_there: bool) -> None:
    made = make(tmp_path)
    write_json(made.summary_file, saved(made) | {"quality": "medium"})
    shutil.rmtree(made.adapt("mine"))
    if not is_there:
        made.dataset_file.unlink()
    assert summarise(made)["quality"] == ("expert" if is_there else "medium")


@pytest.mark.parametrize(
    "damage",
    [
        [],
        {},
        {"seeds": [0], "rows": [{}]},
        {"seeds": [0, "1"], "rows": []},
        {"seeds": [0], "rows": [{"algo": "focal", "method": "gone", "mean": 1.0}]},
        {"seeds": [0], "rows": 3},
    ],
)
def test_a_damaged_summary_is_computed_again(tmp_path: Path, damage: Any) -> None:
    made = make(tmp_path)
    before = saved(made)
    write_json(made.summary_file, damage)
    assert summarise(made) == before == saved(made)
    row = before["rows"][0]
    for key, value in {"mean": "7", "ci95": [1.0], "episodes": 2.0, "scorf": 1.0}.items():
        write_json(made.summary_file, {**before, "rows": [{**row, "method": "gone", key: value}]})
        assert summarise(made) == before == saved(made)
