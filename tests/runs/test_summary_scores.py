"""Scores in the summary, from raw returns: by hand, and against the paper's definitions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from idaq.bench.paper import table
from idaq.bench.published import dataset_return, published, published_score
from idaq.envs import FAMILIES
from idaq.report.tables import summary_table
from idaq.runs.directory import RunDir
from idaq.runs.summary import summarise
from idaq.storage.atomic import write_json
from tests.fakes import write_manifest

METHOD = "idaq-return"
SCORES = {"score", "score_ci95", "score_capped", "score_capped_ci95"}
RELATIVE = {"score_dataset", "score_dataset_ci95"}

Numbers = Sequence[Sequence[float]]


def made_run(
    place: Path,
    *,
    finals: Numbers,
    tasks: Sequence[Sequence[int]],
    success: Numbers | None = None,
    data: dict[str, Any] | None = None,
    family: str = "ml1/push",
) -> RunDir:
    """A run with raw results: `finals` and `success` are [seeds, tasks], of the last episode.

    The episodes before it return much more and succeed: they must not count.
    """
    run = RunDir(place)
    write_manifest(run, family)
    write_json(run.groups_file, [[seed] for seed in range(len(finals))])
    if data is not None:
        write_json(run.dataset_file, data)
    write_json(run.adapt(METHOD) / "config.json", {})
    for seed, (final, own) in enumerate(zip(finals, tasks, strict=True)):
        last = np.asarray(final, np.float32)
        arrays = {
            "tasks": np.asarray(own),
            "returns": np.stack([last + 1e6, last + 1e3, last], axis=1),
        }
        if success is not None:
            won = np.asarray(success[seed], bool)
            arrays["success"] = np.stack([~won, ~won, won], axis=1)
        np.savez_compressed(run.result_file(METHOD, seed), **arrays)  # type: ignore[arg-type]
    return run


def row_of(place: Path, **made: Any) -> dict[str, Any]:
    rows: list[dict[str, Any]] = summarise(made_run(place, **made))["rows"]
    (row,) = rows
    return row


DATA = {  # the successful episodes of tasks 0 to 3 return 10, 20, none, 40
    "mean_return": 16.0,
    "episodes": [3, 3, 3, 3],
    "returns": [9.0, 18.0, 2.0, 35.0],
    "success": 0.5,
    "successes": [3, 1, 0, 2],
    "successful_returns": [10.0, 20.0, 0.0, 40.0],
}


def test_one_seed_by_hand(tmp_path: Path) -> None:
    """The reference is a mean over episodes: (3 * 10 + 1 * 20) / 4 = 12.5."""
    row = row_of(tmp_path, finals=[[5.0, 10.0]], tasks=[[0, 1]], success=[[1, 0]], data=DATA)
    assert row["mean"] == 7.5
    assert row["success"] == 0.5
    assert row["score"] == row["score_capped"] == pytest.approx(7.5 / 12.5)
    assert row["score_dataset"] == pytest.approx(7.5 / 16.0)
    assert (row["episodes"], row["tasks"]) == (3, 2)
    for name in ("success", "score", "score_capped", "score_dataset"):
        assert row[f"{name}_ci95"] == [row[name], row[name]], "one seed gives a point"


def test_every_seed_is_measured_by_its_own_tasks(tmp_path: Path) -> None:
    finals, tasks = [[10.0, 5.0], [40.0, 20.0]], [[0, 2], [3, 1]]
    row = row_of(tmp_path, finals=finals, tasks=tasks, success=[[1, 1], [1, 0]], data=DATA)
    first, second = 7.5 / 10.0, 30.0 / ((20.0 + 2 * 40.0) / 3)
    assert row["score"] == pytest.approx((first + second) / 2)
    assert row["score_dataset"] == pytest.approx((7.5 + 30.0) / 2 / 16.0)
    assert row["success"] == 0.75


def test_the_cap_is_per_seed_after_averaging_tasks(tmp_path: Path) -> None:
    """A task above its expert can make up for another task; a seed cannot for another seed."""
    finals, tasks = [[30.0, 0.0], [4.0, 4.0]], [[0, 2], [0, 2]]
    row = row_of(tmp_path, finals=finals, tasks=tasks, success=[[1, 1], [1, 1]], data=DATA)
    assert row["score"] == pytest.approx((1.5 + 0.4) / 2)
    assert row["score_capped"] == pytest.approx((1.0 + 0.4) / 2)
    made_up = [[15.0, 5.0], [4.0, 4.0]]
    row = row_of(tmp_path / "2", finals=made_up, tasks=tasks, success=[[1, 1], [1, 1]], data=DATA)
    assert row["score_capped"] == pytest.approx((1.0 + 0.4) / 2)


def test_a_task_without_successful_expert_counts_with_its_return(tmp_path: Path) -> None:
    row = row_of(tmp_path, finals=[[10.0, 0.0]], tasks=[[0, 2]], success=[[1, 0]], data=DATA)
    assert row["score"] == pytest.approx(0.5)


def test_no_score_where_there_is_nothing_to_measure_by(tmp_path: Path) -> None:
    """One seed's tasks have no successful episodes: no score at all, rather than of some seeds."""
    made: dict[str, Any] = {"finals": [[1.0], [2.0]], "success": [[1], [0]]}
    row = row_of(tmp_path / "seed", tasks=[[0], [2]], data=DATA, **made)
    assert not SCORES & set(row)
    assert row["score_dataset"] == pytest.approx(1.5 / 16.0)
    unrecorded = {name: DATA[name] for name in ("mean_return", "episodes", "returns")}
    row = row_of(tmp_path / "data", tasks=[[0], [1]], data=unrecorded, **made)
    assert not SCORES & set(row)
    assert set(row) >= RELATIVE
    row = row_of(tmp_path / "none", tasks=[[0], [1]], **made)
    assert not (SCORES | RELATIVE) & set(row)
    assert row["success"] == 0.5


def test_results_without_success_have_no_score(tmp_path: Path) -> None:
    row = row_of(tmp_path, finals=[[1.0], [2.0]], tasks=[[0], [1]], data=DATA)
    assert row["success"] is None
    assert not (SCORES | RELATIVE | {"success_ci95"}) & set(row)


@given(st.integers(0, 2**32 - 1))
def test_against_the_definitions(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Means by loops, and intervals by the oracle's bootstrap."""
    rng = np.random.default_rng(seed)
    num_seeds, num_tasks = 4, 6
    data = {
        "mean_return": float(rng.uniform(50.0, 150.0)),
        "successes": rng.integers(1, 5, 8).tolist(),
        "successful_returns": rng.uniform(80.0, 160.0, 8).tolist(),
    }
    tasks = [rng.choice(8, num_tasks, replace=False).tolist() for _ in range(num_seeds)]
    finals = rng.uniform(0.0, 200.0, (num_seeds, num_tasks)).tolist()
    success = (rng.random((num_seeds, num_tasks)) < 0.5).tolist()
    place = tmp_path_factory.mktemp("scores")
    row = row_of(place, finals=finals, tasks=tasks, success=success, data=data)

    scores = []
    for final, own in zip(finals, tasks, strict=True):
        logged = [data["successful_returns"][t] for t in own for _ in range(data["successes"][t])]
        scores.append(np.mean(final) / np.mean(logged))
    per_seed = {
        "mean": np.mean(finals, axis=1),
        "success": np.mean(success, axis=1),
        "score": np.asarray(scores),
        "score_capped": np.minimum(scores, 1.0),
        "score_dataset": np.mean(finals, axis=1) / data["mean_return"],
    }
    draws = rng.integers(0, num_seeds, (20_000, num_seeds))
    for name, values in per_seed.items():
        assert row[name] == pytest.approx(values.mean(), rel=1e-5)
        low, high = row["ci95" if name == "mean" else f"{name}_ci95"]
        expected = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
        np.testing.assert_allclose([low, high], expected, atol=0.1 * np.ptp(values) + 1e-6)
        assert low <= row[name] + 1e-12
        assert row[name] <= high + 1e-12


def printed(summary: dict[str, Any]) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(summary_table(summary))
    return capture.get()


def test_scores_stand_beside_the_papers(tmp_path: Path) -> None:
    made: dict[str, Any] = {"tasks": [[0], [1]], "success": [[1], [0]], "data": DATA}
    run = made_run(tmp_path, finals=[[7.0], [22.0]], **made)
    text = printed(summarise(run))
    for expected in ("success", "score", " 14 ", "0.50", "0.90", "[0.70, 1.10]", "0.55 ± 0.10"):
        assert expected in text
    plain = printed(summarise(made_run(tmp_path / "2", finals=[[7.0], [22.0]], tasks=[[0], [1]])))
    assert "score" not in plain
    assert "0.55" not in plain, "the paper's score is no return"


@pytest.mark.parametrize(
    ("family", "method", "score"),
    [
        ("ml1/push", "idaq-return", (0.55, 0.10)),
        ("ml1/push", "idaq-prediction-error", (0.31, 0.13)),
        ("ml1/push", "idaq-prediction-variance", (0.13, 0.07)),
        ("ml1/push", "posterior", (0.34, 0.14)),
        ("ml1/coffee-push", "idaq-return", (1.26, 0.13)),
        ("ml1/coffee-push", "posterior", (0.66, 0.07)),
        ("ml1/coffee-push", "expert-context", (0.50, 0.06)),
        ("ml1/coffee-push", "idaq-prediction-error", None),
        ("ml1/push", "posterior-zero", None),
        ("push", "idaq-return", None),
        ("point-robot", "idaq-return", None),
        ("ml1/point-robot", "idaq-return", None),
    ],
)
def test_published_scores(family: str, method: str, score: tuple[float, float] | None) -> None:
    assert published_score(family, method) == score


def test_ml1_has_published_scores_and_no_returns() -> None:
    """The paper scales ML1's returns; to show them beside our unscaled ones would mislead."""
    methods = ("idaq-return", "idaq-prediction-error", "posterior", "expert-context")
    sets = [name for name in FAMILIES if name.startswith("ml1/")]
    assert len(sets) == 50
    for name in sets:
        assert all(published(name, method) is None for method in methods)
        assert all(published_score(name, m) is not None for m in ("idaq-return", "posterior"))
        assert published_score(name, "expert-context") is not None
        assert dataset_return(name) == float(
            table("dataset_returns")[name.removeprefix("ml1/")]["dataset_return"]
        )
    assert dataset_return("ml1/coffee-push") == 1487.84
    assert (dataset_return("ml1/push") or 0.0) > 0.0
