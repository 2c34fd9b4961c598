"""What a summary says of shorter budgets."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.config import Json
from idaq.report.tables import summary_table
from idaq.runs.directory import RunDir
from idaq.runs.run import Run
from idaq.runs.statistics import episodes_to, episodes_to_interval
from idaq.runs.summary import anytime_values, seed_values, summarise, summary_of
from idaq.storage.atomic import write_json
from tests import oracles
from tests.fakes import write_manifest
from tests.runs.test_summary_scores import DATA

NUM_SEEDS, NUM_TASKS, NUM = 4, 3, 5
METHOD, EXPERT = "idaq-return", "expert-context"
CURVES = np.random.default_rng(0).normal(size=(NUM_SEEDS, NUM_TASKS, NUM)).astype(np.float32)
CURVES += np.asarray([-20.0, -12.0, -6.0, -5.2, -5.0], np.float32)


def save(run: RunDir, method: str, returns: Any, *, anytime: bool = True, **arrays: Any) -> None:
    """Results whose episodes all return 1, but for the last one."""
    write_json(run.adapt_config_file(method), {})
    for seed, curves in enumerate(returns):
        episodes = np.ones_like(curves)
        episodes[:, -1] = curves[:, -1]
        found = {"returns": episodes, "tasks": np.arange(len(curves))}
        found |= {"anytime_returns": curves} if anytime else {}
        found |= {name: values[seed] for name, values in arrays.items()}
        np.savez_compressed(run.result_file(method, seed), **found)


def made_run(place: Path, data: Json | None = None) -> RunDir:
    run = RunDir(place)
    write_manifest(run, "point-robot")
    write_json(run.groups_file, [list(range(NUM_SEEDS))])
    if data is not None:
        write_json(run.dataset_file, data)
    return run


def row_of(run: RunDir, method: str = METHOD) -> Json:
    rows = {row["method"]: row for row in summary_of(Run.open(run))["rows"]}
    return dict(rows[method])


def test_curves_and_areas(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    save(run, METHOD, CURVES)
    row = row_of(run)
    assert row["anytime"].keys() == {"mean", "ci95"}
    for k in range(NUM):
        per_seed = CURVES[:, :, k].astype(np.float64).mean(axis=1)
        assert row["anytime"]["mean"][k] == pytest.approx(per_seed.mean())
        assert row["anytime"]["ci95"][k] == pytest.approx(
            oracles.bootstrap_interval(per_seed.tolist()), abs=0.02
        )
    areas = CURVES.astype(np.float64).mean(axis=(1, 2))
    assert row["anytime_area"] == pytest.approx(areas.mean())
    expected = oracles.bootstrap_interval(areas.tolist())
    assert row["anytime_area_ci95"] == pytest.approx(expected, abs=0.02)
    assert row["episodes_to_95"] is row["episodes_to_95_ci95"] is None  # nothing to compare with


def test_the_last_point_is_the_score(tmp_path: Path) -> None:
    """With the same intervals, bit for bit, of every quantity."""
    run = made_run(tmp_path, DATA)
    curves, success = np.abs(CURVES), np.random.default_rng(1).random(CURVES.shape) < 0.5
    save(run, METHOD, curves, success=success, anytime_success=success)
    row = row_of(run)
    for name, interval in (
        ("mean", "ci95"),
        ("success", "success_ci95"),
        ("score_capped", "score_capped_ci95"),
    ):
        assert row["anytime"][name][-1] == row[name]
        assert row["anytime"][interval][-1] == row[interval]
        assert len(row["anytime"][name]) == len(row["anytime"][interval]) == NUM
    assert row["anytime"]["success"] == pytest.approx(success.mean(axis=(0, 1)).tolist())
    found = anytime_values(run, METHOD, list(range(NUM_SEEDS)))
    final = seed_values(run, METHOD, list(range(NUM_SEEDS)))
    for name, curve in found.items():
        np.testing.assert_array_equal(curve[:, -1], final[name])
    assert (found["score_capped"] <= 1.0).all()
    capped = found["score_capped"].mean()
    assert row["anytime_area_score_capped"] == pytest.approx(capped)


def test_episodes_to_expert_context(tmp_path: Path) -> None:
    """Returns are negative; 95% of the way from -20 to -5 is -5.75."""
    run = made_run(tmp_path)
    flat = np.tile(np.asarray([-20.0, -12.0, -5.76, -5.74, -7.0], np.float32), (4, 3, 1))
    save(run, METHOD, flat)
    save(run, "posterior", flat - np.arange(5, dtype=np.float32))
    save(run, EXPERT, np.full((NUM_SEEDS, NUM_TASKS, 1), -5.0, np.float32))
    assert row_of(run)["episodes_to_95"] == 4
    assert row_of(run)["episodes_to_95_ci95"] == [4.0, 4.0]
    assert row_of(run, "posterior")["episodes_to_95"] is None
    assert row_of(run, "posterior")["episodes_to_95_ci95"] == [6.0, 6.0]  # never is N + 1
    assert row_of(run, EXPERT)["episodes_to_95"] == 1


def test_the_table_tells_how_soon(tmp_path: Path) -> None:
    def caption() -> str:
        return str(summary_table(summary_of(Run.open(run))).caption)

    run = made_run(tmp_path)
    flat = np.tile(np.asarray([-20.0, -12.0, -5.76, -5.74, -7.0], np.float32), (4, 3, 1))
    save(run, METHOD, flat)
    save(run, "posterior", flat - np.arange(5, dtype=np.float32))
    assert "expert context" not in caption()
    save(run, EXPERT, np.full((NUM_SEEDS, NUM_TASKS, 1), -5.0, np.float32))
    assert caption().endswith(": idaq-return 4, posterior never")


def test_older_results_are_summarised_as_ever(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    save(run, METHOD, CURVES)
    new = row_of(run)
    save(run, METHOD, CURVES, anytime=False)
    old = row_of(run)
    assert {name for name in new if name not in old} == {
        "anytime",
        "anytime_area",
        "anytime_area_ci95",
        "episodes_to_95",
        "episodes_to_95_ci95",
    }
    assert old == {name: new[name] for name in old}


def test_one_older_seed_is_enough_for_no_curve(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    save(run, METHOD, CURVES)
    np.savez_compressed(run.result_file(METHOD, 1), returns=CURVES[1], tasks=np.arange(NUM_TASKS))
    assert "anytime" not in row_of(run)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_curve_that_is_no_numbers_is_left_out(tmp_path: Path, bad: float) -> None:
    run = made_run(tmp_path)
    spoiled = CURVES.copy()
    spoiled[2, 1, 0] = bad
    save(run, METHOD, spoiled)
    assert "anytime" not in row_of(run)
    json.dumps(summarise(run), allow_nan=False)


def saved(run: RunDir) -> Any:
    return json.loads(run.summary_file.read_text())


def test_a_saved_curve_is_kept_where_results_are_older(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    save(run, METHOD, CURVES)
    save(run, EXPERT, CURVES[:, :, -1:])
    before = summarise(run)
    save(run, METHOD, CURVES, anytime=False)
    assert summarise(run) == before == saved(run)


def test_what_was_compared_with_expert_context_is_kept_without_it(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    save(run, METHOD, CURVES)
    save(run, EXPERT, CURVES[:, :, -1:])
    before = summarise(run)
    assert before["rows"][0]["episodes_to_95"] is not None
    run.result_file(EXPERT, 0).unlink()
    assert summarise(run) == before == saved(run)


def test_never_reached_replaces_reached(tmp_path: Path) -> None:
    """It is a result like any other."""
    run = made_run(tmp_path)
    save(run, METHOD, CURVES)
    save(run, EXPERT, CURVES[:, :, -1:])
    assert summarise(run)["rows"][0]["episodes_to_95"] is not None
    save(run, EXPERT, CURVES[:, :, -1:] + 100.0)
    assert summarise(run)["rows"][0]["episodes_to_95"] is None
    assert saved(run)["rows"][0]["episodes_to_95"] is None


def test_an_old_summary_gains_curves(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    save(run, METHOD, CURVES, anytime=False)
    assert "anytime" not in summarise(run)["rows"][0]
    save(run, METHOD, CURVES)
    summarise(run)
    assert saved(run)["rows"][0]["anytime"]["mean"]


@pytest.mark.parametrize(
    "damaged",
    [
        {"anytime": []},
        {"anytime": {"mean": []}},
        {"anytime": {"mean": ["x"]}},
        {"anytime": {"ci95": [[0.0]]}},
        {"anytime": {"other": [0.0]}},
        {"anytime_area": "x"},
        {"episodes_to_95": 1.5},
    ],
)
def test_a_damaged_curve_is_no_summary(tmp_path: Path, damaged: Json) -> None:
    run = made_run(tmp_path)
    save(run, METHOD, CURVES)
    whole = summarise(run)
    write_json(run.summary_file, {**whole, "rows": [whole["rows"][0] | damaged]})
    run.result_file(METHOD, 0).unlink()
    assert summarise(run)["rows"] == []


# --- The way to a goal, by hand --------------------------------------------------------------


@pytest.mark.parametrize(
    ("curve", "goal", "expected"),
    [
        ([0.0, 94.0, 95.0, 0.0], 100.0, 3),
        ([0.0, 94.0, 94.9, 94.9], 100.0, None),
        ([-100.0, -6.0, -5.0, -4.0], 0.0, 3),
        ([-1.0, -2.0, -3.0, -4.0], -10.0, 1),  # it starts beyond the goal
        ([3.0, 2.0, 2.0, 2.0], 3.0, 1),
        ([0.0], 1.0, None),
    ],
)
def test_episodes_to(curve: list[float], goal: float, expected: int | None) -> None:
    found = episodes_to(np.asarray([curve]), np.asarray([goal]), 0.95)
    assert found == expected
    assert type(found) is (type(None) if expected is None else int)
    never_is = float(expected or len(curve) + 1)
    assert episodes_to_interval(np.asarray([curve]), np.asarray([goal]), 0.95) == (never_is,) * 2


def test_its_interval_resamples_methods_and_experts_seeds_together() -> None:
    rng = np.random.default_rng(0)
    curves = np.sort(rng.random((6, 8)), axis=1)
    goal = curves[:, -1] + rng.normal(size=6) * 0.05
    resampled = []
    for _ in range(4000):
        chosen = rng.integers(0, 6, 6)
        found = episodes_to(curves[chosen], goal[chosen], 0.95)
        resampled.append(9 if found is None else found)
    low, high = episodes_to_interval(curves, goal, 0.95)
    assert low < high
    assert (low, high) == pytest.approx(np.quantile(resampled, [0.025, 0.975]), abs=1.0)
