"""The figures of a run: which are drawn, from what, and that they are the same every time."""

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from idaq.adapt.methods import METHODS
from idaq.algos.entries import ALGORITHMS, PAPER_METHODS
from idaq.config import to_dict
from idaq.errors import IdaqError
from idaq.report import figures, results, style, trajectories
from idaq.report.figures import write_figures
from idaq.report.results import load_run
from idaq.report.trajectories import episode_path, make_scene
from idaq.runs.directory import RunDir
from idaq.runs.run import Run
from idaq.settings import AdaptConfig
from idaq.storage.atomic import atomic_file, write_json
from idaq.storage.dataset import write_dataset
from tests.fakes import write_manifest

ALL = ["didactic", "iterative", "uncertainty", "adaptation", "anytime"]
CONFIG = AdaptConfig(num_reference_episodes=3, num_iterative_episodes=3)
NUM_TASKS, HORIZON = 6, 4
TEST_TASKS = [1, 3, 5]


def goals() -> NDArray[np.float64]:
    angles = np.linspace(0.0, np.pi, NUM_TASKS)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def make_run(
    path: Path,
    methods: tuple[str, ...] = PAPER_METHODS,
    *,
    num_seeds: int = 2,
    obs_dim: int = 2,
    family: str = "point-robot",
    with_data: bool = True,
) -> RunDir:
    """A run directory with made-up results, laid out as a real one is."""
    run = RunDir(path)
    write_manifest(run, family, data={"trajectories": 2, "seed": 0})
    write_json(run.groups_file, [[seed] for seed in range(num_seeds)])
    if with_data:
        write_data(run.data, family, obs_dim)
    for method in methods:
        write_json(run.adapt(method) / "config.json", {"method": method, "config": to_dict(CONFIG)})
        for seed in range(num_seeds):
            save(run, method, seed, raw_results(method, seed, obs_dim))
    return run


def write_data(path: Path, family: str, obs_dim: int) -> None:
    rng = np.random.default_rng(9)
    num_episodes = 2 * NUM_TASKS
    num_rows = HORIZON * num_episodes
    arrays = {
        "observations": rng.normal(size=(num_rows, obs_dim)),
        "actions": np.zeros((num_rows, 2)),
        "rewards": np.zeros(num_rows),
        "next_observations": rng.normal(size=(num_rows, obs_dim)),
        "terminated": np.zeros(num_rows),
        "truncated": np.zeros(num_rows),
        "episode_offsets": np.arange(0, num_rows + 1, HORIZON),
        "episode_task": np.repeat(np.arange(NUM_TASKS), 2),
    }
    metadata = {"family": family, "num_tasks": NUM_TASKS, "task_params": goals().tolist()}
    write_dataset(path, arrays, metadata)


def raw_results(method: str, seed: int, obs_dim: int) -> dict[str, NDArray[Any]]:
    """Methods differ after the reference stage, which is the same for all."""
    rng = np.random.default_rng([seed, len(method)])
    shape = (len(TEST_TASKS), 1 if method == "expert-context" else CONFIG.num_episodes)
    returns = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    returns[:, CONFIG.num_reference_episodes :] += len(method)
    walk = rng.normal(scale=0.3, size=(*shape, HORIZON + 1, obs_dim)).cumsum(axis=2)
    anytime = np.maximum.accumulate(returns, axis=1)
    anytime[:, -1] = returns[:, -1]
    arrays: dict[str, Any] = {
        "tasks": np.asarray(TEST_TASKS),
        "returns": returns,
        "anytime_returns": anytime,
        "kept": np.zeros(shape, bool),
        "observations": walk.astype(np.float32),
        "valid": np.ones((*shape, HORIZON), bool),
    }
    if method.startswith("idaq-"):
        arrays["uncertainty"] = rng.gamma(1.0, size=shape).astype(np.float32)
        reference = arrays["uncertainty"][:, : CONFIG.num_reference_episodes]
        arrays["threshold"] = reference.min(axis=1)
        arrays["kept"] = arrays["uncertainty"] <= arrays["threshold"][:, None]
        arrays["kept"][:, -1] = False
    return arrays


def save(run: RunDir, method: str, seed: int, arrays: dict[str, NDArray[Any]]) -> None:
    file = run.result_file(method, seed)
    with atomic_file(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def change(run: RunDir, method: str, seed: int, **changes: Any) -> None:
    save(run, method, seed, raw_results(method, seed, 2) | changes)


def names(files: list[Path]) -> list[str]:
    return [file.stem for file in files]


def size_of(file: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    content = file.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert content[12:16] == b"IHDR"
    assert content[-8:-4] == b"IEND"
    return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])


@pytest.fixture(scope="module")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return make_run(tmp_path_factory.mktemp("full") / "run")


def test_a_full_run_gets_all_figures_and_the_same_bytes_again(full_run: RunDir) -> None:
    files = write_figures(full_run)
    assert names(files) == ALL
    assert sorted(full_run.figures.iterdir()) == sorted(files)
    for file in files:
        width, height = size_of(file)
        assert 600 <= width <= 2000
        assert 300 <= height <= 2000
        assert 5_000 < file.stat().st_size < 300_000
    before = [file.read_bytes() for file in files]
    assert [file.read_bytes() for file in write_figures(full_run)] == before


def test_the_users_own_settings_change_nothing(tmp_path: Path) -> None:
    import matplotlib

    with style.drawing(tmp_path / "a.png", 2.0, 2.0) as figure:
        figure.subplots().set_title("title")
    with matplotlib.rc_context({"font.size": 20.0, "axes.facecolor": "red", "savefig.dpi": 10}):
        with style.drawing(tmp_path / "b.png", 2.0, 2.0) as figure:
            figure.subplots().set_title("title")
        assert matplotlib.rcParams["font.size"] == 20.0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("module", [figures, results, style, trajectories])
def test_matplotlib_is_imported_only_to_draw(module: ModuleType) -> None:
    origins = [getattr(value, "__module__", None) or "" for value in vars(module).values()]
    assert not any(origin.startswith("matplotlib") for origin in origins)
    assert not {"matplotlib", "mpl", "plt"} & set(vars(module))


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        (("posterior",), ["iterative", "adaptation", "anytime"]),
        (("expert-context",), ["adaptation"]),
        (("idaq-prediction-error", "a-name"), ["uncertainty", "adaptation", "anytime"]),
    ],
)
def test_missing_methods_are_left_out(
    tmp_path: Path, methods: tuple[str, ...], expected: list[str]
) -> None:
    assert names(write_figures(make_run(tmp_path, methods))) == expected


def test_one_seed_and_no_dataset_are_enough(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("idaq-return",), num_seeds=1, with_data=False)
    assert names(write_figures(run)) == ALL


def test_other_observations_get_no_plane(tmp_path: Path) -> None:
    methods = ("idaq-return", "posterior")
    run = make_run(tmp_path, methods, obs_dim=3, family="another-family", with_data=False)
    assert names(write_figures(run)) == ["uncertainty", "adaptation", "anytime"]


def test_older_results_have_no_curve_over_budgets(tmp_path: Path) -> None:
    """A method of one episode needs none: it is a level all the same."""
    run = make_run(tmp_path)
    for method in ("posterior", "expert-context"):
        for seed in (0, 1):
            arrays = raw_results(method, seed, 2)
            del arrays["anytime_returns"]
            save(run, method, seed, arrays)
    found = load_run(run).methods
    assert found["posterior"].anytime_means() is None
    level = found["expert-context"].anytime_means()
    assert level is not None
    np.testing.assert_array_equal(level, found["expert-context"].seed_means())
    with_curves = found["idaq-return"].anytime_means()
    assert with_curves is not None
    np.testing.assert_array_equal(with_curves[:, -1], found["idaq-return"].seed_means()[:, -1])
    assert names(write_figures(run)) == ALL
    older = make_run(tmp_path / "older", ("posterior", "expert-context"))
    for seed in (0, 1):
        arrays = raw_results("posterior", seed, 2)
        del arrays["anytime_returns"]
        save(older, "posterior", seed, arrays)
    assert names(write_figures(older)) == ["iterative", "adaptation"]


def test_values_that_are_not_finite_are_not_drawn(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("idaq-prediction-variance",), num_seeds=1)
    arrays = raw_results("idaq-prediction-variance", 0, 2)
    arrays["observations"][:, :, 1:] = np.nan
    nothing = {"uncertainty": np.full_like(arrays["uncertainty"], np.nan)}
    nothing["kept"] = np.zeros_like(arrays["kept"])
    save(run, "idaq-prediction-variance", 0, arrays | nothing)
    assert names(write_figures(run)) == ALL


def test_a_run_without_results_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path, ())
    with pytest.raises(IdaqError, match=r"no complete adaptation results.*idaq adapt"):
        write_figures(run)
    assert not run.figures.exists()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="no run directory"):
        write_figures(RunDir(tmp_path))


def test_a_method_that_lacks_a_seed_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("idaq-return", "posterior"))
    run.result_file("posterior", 1).unlink()
    assert list(load_run(run).methods) == ["idaq-return"]


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("posterior",), num_seeds=1)
    arrays = raw_results("posterior", 0, 2)
    del arrays["kept"], arrays["tasks"]
    save(run, "posterior", 0, arrays)
    with pytest.raises(IdaqError, match=r"seed-000.npz' lacks tasks, kept"):
        load_run(run)


def test_paths_that_were_not_saved_are_not_drawn(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("posterior",), num_seeds=1)
    assert load_run(run).is_on_a_plane
    arrays = raw_results("posterior", 0, 2)
    del arrays["observations"], arrays["valid"]
    save(run, "posterior", 0, arrays)
    assert not load_run(run).is_on_a_plane
    assert names(write_figures(run)) == ["adaptation", "anytime"]


def test_a_damaged_config_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("posterior",), num_seeds=1)
    write_json(run.adapt("posterior") / "config.json", [])
    with pytest.raises(IdaqError, match=r"config.json': config must be an object"):
        load_run(run)


def test_methods_from_outside_that_judge_are_drawn(tmp_path: Path) -> None:
    """Results that are only stored under another name are not."""
    methods = (*PAPER_METHODS, "mine", "silent", "other-name")
    run = make_run(tmp_path / "run", methods)
    for name in ("mine", "other-name"):
        change(run, name, 0, uncertainty=-raw_results(name, 0, 2)["returns"])
    entries = [replace(METHODS["posterior"], name=name, label="Mine") for name in methods[-3:-1]]
    with METHODS.registered(*entries):
        found = load_run(run)
        drawn = found.drawn(trajectories.DIDACTIC_METHODS)
        assert [each.name for each in drawn] == [*trajectories.DIDACTIC_METHODS, "mine"]
        assert [each.judges_by_return for each in drawn] == [True, False, True]
        assert names(write_figures(run)) == ALL


def test_methods_come_in_the_order_of_tables(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("zz", "posterior", "aa", "idaq-return"), num_seeds=1)
    assert list(load_run(run).methods) == ["idaq-return", "posterior", "aa", "zz"]


def test_the_example_is_the_most_typical_task(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("idaq-return", "posterior"), num_seeds=1)
    returns = np.zeros((3, CONFIG.num_episodes), np.float32)
    for method, final in ("idaq-return", [1.0, 3.0, 2.1]), ("posterior", [-9.0, -1.0, -5.0]):
        returns[:, -1] = final
        change(run, method, 0, returns=returns)
    loaded = load_run(run)
    assert loaded.example == 2
    assert loaded.example_title == "point-robot, seed 0, test task 5"


def test_the_threshold_is_that_of_the_reference_stage(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("idaq-return",), num_seeds=1)
    uncertainty = np.asarray([[3.0, 2.0, 4.0, 1.0, 5.0, 1.0]] * 3, np.float32)
    kept = np.asarray([[False, True, False, True, False, False]] * 3)
    change(run, "idaq-return", 0, uncertainty=uncertainty, kept=kept, threshold=np.ones(3))
    assert load_run(run).methods["idaq-return"].reference_threshold(0) == 2.0


def test_a_path_ends_where_the_episode_does(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("posterior",), num_seeds=1)
    valid = np.ones((3, CONFIG.num_episodes, HORIZON), bool)
    valid[1, 2, 2:] = False
    change(run, "posterior", 0, valid=valid)
    method = load_run(run).methods["posterior"]
    assert episode_path(method, 1, 2).shape == (3, 2)
    assert episode_path(method, 1, 3).shape == (HORIZON + 1, 2)


def test_the_scene_is_the_tasks_own_data_and_goal(full_run: RunDir) -> None:
    scene = make_scene(Run.open(full_run).find_data(), 3)
    assert scene.goal is not None
    np.testing.assert_allclose(scene.goal, goals()[3])
    rows = np.load(full_run.data / "observations.npy")
    assert len(scene.data) == 2
    np.testing.assert_array_equal(scene.data[0][0], rows[3 * 2 * HORIZON])
    assert scene.data[0].shape == (HORIZON + 1, 2)


@pytest.mark.parametrize("params", [None, "goal", [[1.0, 2.0]], [[1.0], [1.0, 2.0]], [{"x": 1.0}]])
def test_parameters_that_are_no_points_give_no_goal(full_run: RunDir, params: Any) -> None:
    dataset = Run.open(full_run).find_data()
    assert dataset is not None
    scene = make_scene(replace(dataset, metadata=dataset.metadata | {"task_params": params}), 3)
    assert scene.goal is None
    assert scene.goals.shape == (0, 2)


def test_the_data_may_lie_elsewhere_but_not_be_another(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", (), with_data=False)
    assert Run.open(run).find_data() is None
    write_data(tmp_path / "data", "point-robot", 2)
    manifest = json.loads(run.manifest_file.read_text())
    manifest["provenance"]["dataset"] = str(tmp_path / "data")
    write_json(run.manifest_file, manifest)
    dataset = Run.open(run).find_data()
    assert dataset is not None
    assert dataset.path == tmp_path / "data"
    manifest["identity"]["data"] = {"sha256": "of another"}
    write_json(run.manifest_file, manifest)
    assert Run.open(run).find_data() is None


def test_a_shared_reference_stage_is_drawn_once(full_run: RunDir) -> None:
    methods = load_run(full_run).methods
    curves = [method for method in methods.values() if method.num_episodes > 1]
    assert figures.num_shared_episodes(curves) == CONFIG.num_reference_episodes
    assert figures.num_shared_episodes(curves[:1]) == 0
    curves[1].first["returns"][0, 0] += 1.0
    assert figures.num_shared_episodes(curves) == 0


def test_every_method_has_a_look_of_its_own() -> None:
    looks = style.looks([*PAPER_METHODS, "mine", "yours"])
    assert looks["mine"].label == "mine"
    assert len({(look.colour, look.marker) for look in looks.values()}) == len(looks)


def test_pale_is_between_the_colour_and_white() -> None:
    assert style.pale("#000000") == "#9e9e9e"
    assert style.pale("#ffffff") == "#ffffff"


def test_the_papers_returns_are_those_of_the_same_algorithm_and_quality(full_run: RunDir) -> None:
    run = load_run(full_run)
    assert (run.algo, run.quality) == ("focal", "expert")
    focal = figures.paper_returns(run)
    assert focal["idaq-return"].mean == -5.10
    assert focal["expert-context"].mean == -4.68
    assert figures.paper_returns(replace(run, quality="medium")) == {}
    macaw = figures.paper_returns(replace(run, algo="macaw"))
    assert {name: number.mean for name, number in macaw.items()} == {"expert-context": -19.60}


def test_the_quality_is_the_datas(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write_json(run.dataset_file, {"quality": "replay"})
    assert load_run(run).quality == "replay"


def test_titles_and_labels_name_what_is_unusual(full_run: RunDir) -> None:
    run = load_run(full_run)
    assert run.example_title.startswith("point-robot, seed 0, test task ")
    other = replace(run, quality="medium", algo="op-cl")
    assert other.example_title.startswith("point-robot, medium data, OP+CL, seed 0, test task ")
    assert style.looks(["posterior"])["posterior"].label == "posterior (FOCAL)"
    for algo in ALGORITHMS:
        label = style.looks(["posterior"], algo)["posterior"].label
        assert label.lower().replace("+", "-") == f"posterior ({algo})"


def test_methods_of_different_lengths_share_a_figure(tmp_path: Path) -> None:
    run = make_run(tmp_path, ("idaq-return", "posterior"), num_seeds=1)
    longer = replace(CONFIG, num_iterative_episodes=4)
    write_json(run.adapt("posterior") / "config.json", {"config": to_dict(longer)})
    arrays = raw_results("posterior", 0, 2)
    more = {
        name: np.concatenate([value, value[:, :1]], axis=1)
        for name, value in arrays.items()
        if name != "tasks"
    }
    save(run, "posterior", 0, arrays | more)
    assert names(write_figures(run)) == ALL
