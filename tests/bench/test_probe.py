"""Distances to data, and what is kept of a training task's reference episodes."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.bench.cells import make_cells, run_place
from idaq.bench.curve import learning_curve
from idaq.bench.experiments import SCALES, get_experiment
from idaq.bench.probe import NUM_EPISODES, episode_vectors, minimal_distances
from idaq.bench.runner import run_cells
from idaq.bench.status import probe_file
from idaq.bench.tables import make_table
from idaq.envs import FAMILIES
from idaq.errors import IdaqError
from idaq.report.bench_figures import write_bench_figures
from idaq.report.bench_payload import bench_payload
from idaq.report.payload import Unreadable
from idaq.runs.directory import RunDir
from idaq.runs.results import load_results
from idaq.runs.run import Run
from tests import tiny as small_data
from tests.bench.small import TINY
from tests.host_fakes import InlinePool, Walk


def test_minimal_distance_by_hand() -> None:
    data = np.array([[3.0, 4.0], [0.0, 2.0]])
    episodes = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 3.0]])
    np.testing.assert_allclose(minimal_distances(episodes, data), [0.0, 1.0, 0.5])


def test_vectors_are_states_actions_and_rewards_step_by_step() -> None:
    episodes = small_data.episodes(3)
    vectors = np.asarray(episode_vectors(episodes)).reshape(3, small_data.SPEC.horizon, -1)
    for number in range(3):
        for step in range(small_data.SPEC.horizon):
            expected = np.concatenate(
                [
                    episodes.obs[number, step],
                    episodes.action[number, step],
                    [episodes.reward[number, step]],
                ]
            )
            expected = expected * bool(episodes.valid[number, step])
            np.testing.assert_array_equal(vectors[number, step], expected)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> Path:
    """The cells of all figures on Point-Robot, tiny."""
    place = tmp_path_factory.mktemp("figures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCALES, "smoke", TINY)
        for name in ("fig-quantification", "fig-point", "fig-learning-curve"):
            cells = make_cells(get_experiment(name), "smoke", only="point-robot")
            run_cells(place, cells, quiet=True)
    return place


def run_of(results: Path, name: str) -> RunDir:
    (cell,) = make_cells(get_experiment(name), "smoke", only="point-robot")
    run = run_place(results, cell)
    assert run is not None
    return run


def test_a_probe_is_of_a_training_task(results: Path, tiny: None) -> None:
    run = run_of(results, "fig-quantification")
    with np.load(probe_file(run)) as arrays:
        probe = dict(arrays)
    split = Run.open(run).split_of(0)
    assert probe["task"] in split.train
    assert probe["task"] not in split.test
    assert probe["returns"].shape == probe["distance"].shape == (NUM_EPISODES,)
    assert (probe["distance"] > 0).all()
    assert len(probe["data_returns"]) == TINY.trajectories
    np.testing.assert_allclose(probe["uncertainty return"], -probe["returns"], rtol=1e-5)
    for name in ("return", "prediction-error", "prediction-variance"):
        values, threshold = probe[f"uncertainty {name}"], probe[f"threshold {name}"]
        assert threshold in values, "an observed value"
        assert (values <= threshold).mean() == pytest.approx(0.1, abs=0.05)


def test_the_end_of_the_learning_curve_is_the_result(results: Path, tiny: None) -> None:
    run = run_of(results, "fig-learning-curve")
    curve = learning_curve(run)
    assert curve is not None
    assert curve.updates.tolist() == [1, 2, 3, 4, 5]
    assert list(curve.returns) == [
        "idaq-return",
        "idaq-prediction-variance",
        "posterior",
        "expert-context",
    ]
    for name, returns in curve.returns.items():
        final = [load_results(run, name, seed)["returns"][:, -1].mean() for seed in (0, 1)]
        np.testing.assert_allclose(returns[-1], final, rtol=1e-5)
    assert len(set(curve.returns["idaq-return"][:, 0])) == 5, "agents differ between points"


def test_agents_kept_during_training_change_nothing(results: Path, tiny: None) -> None:
    """The curve's cell and the plain one trained the same agents."""
    plain, curve = run_of(results, "fig-point"), run_of(results, "fig-learning-curve")
    assert curve.path.name == f"{plain.path.name}-curve"
    for seed in (0, 1):
        assert plain.agent_file(seed).read_bytes() == curve.agent_file(seed).read_bytes()
        assert curve.agent_file(seed, 5).read_bytes() == curve.agent_file(seed).read_bytes()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("fig-quantification", ["fig-quantification.png"]),
        ("fig-distance", ["fig-distance.png"]),
        ("fig-point", [f"fig-point-{k}.png" for k in ("didactic", "iterative", "adaptation")]),
        ("fig-learning-curve", ["fig-learning-curve-point-robot.png"]),
    ],
)
def test_figures(results: Path, tmp_path: Path, tiny: None, name: str, files: list[str]) -> None:
    experiment = get_experiment(name)
    cells = make_cells(experiment, "smoke", only="point-robot")
    made = write_bench_figures(experiment, results, cells, tmp_path)
    assert [file.name for file in made] == files
    again = write_bench_figures(experiment, results, cells, tmp_path / "again")
    for first, second in zip(made, again, strict=True):
        assert first.read_bytes() == second.read_bytes()
        assert first.stat().st_size > 10_000


def test_figures_that_cannot_be_drawn(tmp_path: Path, tiny: None) -> None:
    for name, said in (("ml1", "is a table"), ("fig-point", "No cell of 'fig-point' is done")):
        experiment = get_experiment(name)
        with pytest.raises(IdaqError, match=said):
            write_bench_figures(experiment, tmp_path, make_cells(experiment, "smoke"), tmp_path)


def test_the_page_shows_them(results: Path, tiny: None) -> None:
    shown = {
        each["name"]: each
        for each in bench_payload(results, Unreadable())
        if each["scale"] == "smoke"
    }
    assert {"fig-quantification", "fig-distance", "fig-point", "fig-learning-curve"} <= set(shown)
    (probe,) = shown["fig-distance"]["probes"]
    assert len(probe["returns"]) == NUM_EPISODES
    (curve,) = shown["fig-learning-curve"]["curves"]
    assert [len(method["mean"]) for method in curve["methods"]] == [5, 5, 5, 5]


def test_simulators_in_workers(
    tmp_path: Path, tiny: None, compile_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ML1 row end to end: scores, and the distance of episodes that end early."""
    monkeypatch.setitem(FAMILIES.added, "ml1/reach", Walk(num_tasks=10, name="ml1/reach"))
    monkeypatch.setattr("idaq.bench.engines.local.WorkerPool", InlinePool)
    experiment = get_experiment("fig-distance")
    cells = make_cells(experiment, "smoke", only="reach")
    statuses = run_cells(tmp_path, cells, quiet=True)
    assert [status.state for status in statuses.values()] == ["done"]
    run = run_place(tmp_path, cells[0])
    assert run is not None
    with np.load(probe_file(run)) as probe:
        assert np.isfinite(probe["distance"]).all()
    table = make_table(experiment, tmp_path, cells)
    (row,) = table.rows
    for column in table.columns:
        entry = table.entry(row, column)
        assert entry.values is not None or "no successes" in entry.note


@pytest.mark.parametrize("name", ["probe", "curve"])
@pytest.mark.parametrize("damage", ["no archive", "of texts", "of other shapes", "NaN", "empty"])
def test_damaged_figures_are_listed_and_the_others_shown(
    results: Path, tiny: None, tmp_path: Path, name: str, damage: str
) -> None:
    copy = Path(shutil.copytree(results, tmp_path / "bench"))
    (file,) = copy.glob(f"cells/*/{name}.npz")
    with np.load(file) as content:
        arrays = dict(content)
    array = "returns" if name == "probe" else "idaq-return"
    changes: dict[str, Any] = {
        "of texts": np.array(["x"]),
        "of other shapes": arrays[array][:-1],
        "NaN": arrays[array] * np.nan,
        "empty": arrays[array][:0],
    }
    if damage == "no archive":
        file.write_bytes(b"x")
    else:
        np.savez(file, **arrays | {array: changes[damage]})
    unreadable = Unreadable()
    shown = {each["name"] for each in bench_payload(copy, unreadable)}
    assert "fig-point" in shown
    assert unreadable.found
    assert all(str(file) in each["problem"] for each in unreadable.found)
    experiment = get_experiment("fig-distance" if name == "probe" else "fig-learning-curve")
    cells = make_cells(experiment, "smoke", only="point-robot")
    with pytest.raises(IdaqError, match=str(file)):
        write_bench_figures(experiment, copy, cells, tmp_path / "figures")
