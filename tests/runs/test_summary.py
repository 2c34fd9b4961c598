"""Which results are in the summary, in which order, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.algos.entries import PAPER_METHODS
from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.runs.labels import method_order, subject_of
from idaq.runs.results import load_results
from idaq.runs.run import Run
from idaq.runs.summary import data_quality, summarise, summary_of
from idaq.storage.atomic import write_json
from tests.fakes import write_manifest


def run_with(place: Path, seeds: int, results: dict[str, list[int]]) -> RunDir:
    """A run with results of some seeds for each method."""
    run = RunDir(place)
    write_manifest(run, "point-robot")
    write_json(run.groups_file, [[seed] for seed in range(seeds)])
    for method, done in results.items():
        write_json(run.adapt(method) / "config.json", {})
        for seed in done:
            save(run, method, seed, returns=np.full((3, 2), float(seed)))
    return run


def save(run: RunDir, method: str, seed: int, **arrays: Any) -> None:
    np.savez_compressed(run.result_file(method, seed), tasks=np.arange(3), **arrays)


def test_methods_with_results_of_all_seeds_in_the_papers_order(tmp_path: Path) -> None:
    everyone = [0, 1]
    run = run_with(
        tmp_path,
        2,
        {"zebra": everyone, "posterior": everyone, "ant": everyone, "idaq-return": everyone}
        | {"expert-context": [0]},
    )
    summary = summary_of(Run.open(run))
    assert not run.summary_file.exists()
    assert [row["method"] for row in summary["rows"]] == [
        "idaq-return",
        "posterior",
        "ant",
        "zebra",
    ]
    assert summary == summarise(run)
    assert run.summary_file.is_file()
    assert {name: summary[name] for name in summary if name != "rows"} == {
        "family": "point-robot",
        "quality": "expert",
        "preset": "default",
        "split": "test",
        "seeds": everyone,
    }
    row = summary["rows"][0]
    assert (row["algo"], row["mean"], row["success"]) == ("focal", 0.5, None)
    assert (row["tasks"], row["episodes"]) == (3, 2)


def test_no_seeds_no_rows(tmp_path: Path) -> None:
    assert summary_of(Run.open(run_with(tmp_path, 0, {"posterior": []})))["rows"] == []


def test_order() -> None:
    assert sorted([*PAPER_METHODS, "b", "a"], key=method_order) == [*PAPER_METHODS, "a", "b"]


def test_quality_is_the_datas_or_expert(tmp_path: Path) -> None:
    run = run_with(tmp_path, 1, {})
    assert data_quality(run) == "expert"
    for told, expected in ((None, "expert"), ("medium", "medium")):
        write_json(run.dataset_file, {"quality": told})
        assert data_quality(run) == expected


@pytest.mark.parametrize(
    ("quality", "algo", "expected"),
    [
        ("expert", "focal", "reach"),
        ("medium", "focal", "reach, medium data"),
        ("expert", "macaw", "reach, MACAW"),
        ("random", "borel", "reach, random data, BOReL"),
    ],
)
def test_subject(quality: str, algo: str, expected: str) -> None:
    assert subject_of("reach", quality, algo) == expected


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"returns": np.zeros(3)},
        {"returns": np.zeros((3, 2, 1))},
        {"returns": np.full((3, 2), np.nan)},
        {"returns": np.asarray([[0.0, 1.0], [np.inf, 0.0]])},
    ],
    ids=["none", "one axis", "three axes", "no numbers", "infinite"],
)
def test_results_without_finite_returns_are_refused(tmp_path: Path, arrays: Any) -> None:
    run = run_with(tmp_path, 1, {"posterior": [0]})
    save(run, "posterior", 0, **arrays)
    with pytest.raises(IdaqError, match=r"has no finite returns per task and episode\. Remove it"):
        load_results(run, "posterior", 0)


def test_results_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    run = run_with(tmp_path, 1, {"posterior": [0]})
    file = run.result_file("posterior", 0)
    for data in (b"", b"text", file.read_bytes()[:-30]):
        file.write_bytes(data)
        with pytest.raises(IdaqError, match=r"cannot be read .*Remove it"):
            load_results(run, "posterior", 0)


def test_seeds_that_differ_in_shape_are_refused(tmp_path: Path) -> None:
    run = run_with(tmp_path, 2, {"posterior": [0, 1]})
    save(run, "posterior", 1, returns=np.zeros((3, 4)))
    with pytest.raises(IdaqError, match="differ in shape between seeds"):
        summary_of(Run.open(run))


def test_success_of_some_seeds_is_none(tmp_path: Path) -> None:
    run = run_with(tmp_path, 2, {"posterior": [0, 1]})
    save(run, "posterior", 1, returns=np.zeros((3, 2)), success=np.ones((3, 2), bool))
    (row,) = summary_of(Run.open(run))["rows"]
    assert row["success"] is None
