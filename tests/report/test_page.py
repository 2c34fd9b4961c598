"""What the page holds: everything, in little space, and nothing from elsewhere."""

import base64
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.bench.experiments import EXPERIMENTS
from idaq.config import to_dict
from idaq.errors import IdaqError
from idaq.report import payload
from idaq.report.page import page_payload, render_page, write_page
from idaq.report.payload import POSITION_SCALE, find_runs, pack_positions
from idaq.report.serve import Source, make_server
from idaq.runs.directory import RunDir
from idaq.runs.results import thresholds
from idaq.runs.summary import summarise
from idaq.settings import AdaptConfig
from idaq.storage.atomic import write_json
from idaq.storage.checked import read_object
from tests.adapt import cases
from tests.fakes import write_manifest
from tests.report.test_figures import TEST_TASKS, make_run


def floats(text: str, *shape: int) -> Any:
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)


def test_every_episode_is_there(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (shown,) = page_payload([run.path])["runs"]
    assert shown["name"] == "run"
    assert shown["seeds"] == [0, 1]
    names = [method["name"] for method in shown["methods"]]
    assert names == [row["method"] for row in shown["rows"]]
    for method in shown["methods"]:
        for number, seed in enumerate(method["seeds"]):
            with np.load(run.result_file(method["name"], number)) as raw:
                shape = raw["returns"].shape
                np.testing.assert_array_equal(floats(seed["returns"], *shape), raw["returns"])
                kept = np.frombuffer(base64.b64decode(seed["kept"]), np.uint8).reshape(shape)
                np.testing.assert_array_equal(kept, raw["kept"])
                assert seed["tasks"] == TEST_TASKS
                packed = np.frombuffer(base64.b64decode(seed["paths"]), "<i2")
                positions = packed.reshape(raw["observations"].shape) / POSITION_SCALE
                np.testing.assert_allclose(positions, raw["observations"], atol=2e-4)


def test_data_that_is_not_the_experts_and_another_algorithm_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", methods=("idaq-return", "posterior"))
    (usual,) = page_payload([run.path])["runs"]
    assert usual["subject"] == "point-robot"
    manifest = read_object(run.manifest_file)
    manifest["identity"]["algo"] = "op-cl"
    write_json(run.path / "run.json", manifest)
    write_json(run.dataset_file, {"quality": "medium"})
    (shown,) = page_payload([run.path])["runs"]
    assert shown["subject"] == "point-robot, medium data, OP+CL"
    labels = [method["label"] for method in shown["methods"]]
    assert labels == ["IDAQ, return", "posterior (OP+CL)"]


def test_methods_under_names_of_their_own_differ_in_colour(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", methods=("idaq-return", "mine", "yours"))
    methods = page_payload([run.path])["runs"][0]["methods"]
    assert {method["name"] for method in methods} == {"idaq-return", "mine", "yours"}
    assert len({method["colour"] for method in methods}) == 3


def test_the_curve_is_the_mean_over_tasks_and_seeds(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", methods=("posterior",))
    method = page_payload([run.path])["runs"][0]["methods"][0]
    raw = [np.load(run.result_file("posterior", seed))["returns"] for seed in (0, 1)]
    np.testing.assert_allclose(method["curve"], np.mean(raw, axis=(0, 1)), atol=1e-3)
    low, high = np.transpose(method["band"])
    assert (low <= np.asarray(method["curve"]) + 1e-3).all()
    assert (np.asarray(method["curve"]) <= high + 1e-3).all()


def test_the_curve_over_budgets_and_older_results_without_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", methods=("posterior", "expert-context"))
    posterior, expert = page_payload([run.path])["runs"][0]["methods"]
    raw = [np.load(run.result_file("posterior", seed))["anytime_returns"] for seed in (0, 1)]
    np.testing.assert_allclose(posterior["anytime"], np.mean(raw, axis=(0, 1)), atol=1e-3)
    assert len(posterior["anytimeBand"]) == len(posterior["anytime"]) == 6
    assert posterior["anytime"][-1] == posterior["curve"][-1]
    assert posterior["anytimeBand"][-1] == posterior["band"][-1]
    for method in ("posterior", "expert-context"):
        with np.load(run.result_file(method, 1)) as arrays:
            older = {name: arrays[name] for name in arrays.files if name != "anytime_returns"}
        np.savez(run.result_file(method, 1), **older)
    posterior, expert = page_payload([run.path])["runs"][0]["methods"]
    assert posterior["anytime"] == posterior["anytimeBand"] == []
    assert expert["anytime"] == expert["curve"]
    np.savez(run.result_file("expert-context", 1), **older, anytime_returns=np.full((3, 1), np.inf))
    _, expert = page_payload([run.path])["runs"][0]["methods"]
    assert expert["anytime"] == []


@pytest.mark.parametrize(
    "case",
    ["paper", "released", "untried, best", "prediction error", "improvement", "search, best"],
)
def test_thresholds_agree_with_what_the_adapter_decided(case: str) -> None:
    """An iterative episode was kept exactly if it passed the threshold that is shown for it."""
    found = cases.results(case)
    _, _, changes = cases.CASES[case]
    config = cases.options(**changes)
    for seed in range(found["returns"].shape[0]):
        uncertainty, kept = found["uncertainty"][seed], found["kept"][seed]
        own = {name: found[name][seed] for name in ("uncertainty", "kept", "thresholds")}
        shown = thresholds(own, config)
        np.testing.assert_array_equal(
            thresholds(own | {"thresholds": shown + 1.0}, config), shown + 1.0, "as they were saved"
        )
        older = {name: value for name, value in own.items() if name != "thresholds"}
        derived = thresholds(older, config)[:, :-1]
        np.testing.assert_array_equal(derived, shown[:, :-1], "but for the final one, not judged")
        step = config.episodes_per_hypothesis
        for episode in range(0, config.num_episodes - 1, step):
            value, limit = uncertainty[:, episode], shown[:, episode]
            is_reference = episode < config.num_reference_episodes
            strict = config.accept == "improvement" and not is_reference
            passed = value < limit if strict else value <= limit
            np.testing.assert_array_equal(passed, kept[:, episode])


def test_positions_far_out_lie_on_the_border() -> None:
    packed = pack_positions(np.array([[1e9, -1e9], [np.nan, 0.5]]))
    assert packed.tolist() == [[32767, -32768], [0, 2000]]


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    page = write_page([tmp_path / "runs"], tmp_path / "out" / "page.html").read_text()
    addresses = set(re.findall(r"https?://[^\"' )]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}, "a namespace, not an address"
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=[\"'](?!data:)", page)
    assert "default-src 'none'" in page


def test_data_cannot_end_its_element() -> None:
    page = render_page(page_payload([]) | {"made": "</script><script>alert(1)</script>"})
    assert page.count("</script>") == 2
    data = page.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)["made"] == "</script><script>alert(1)</script>"


def test_trajectories_beyond_the_budget_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", methods=("idaq-return", "posterior"))
    methods = page_payload([run.path])["runs"][0]["methods"]
    size = len(base64.b64decode(methods[0]["seeds"][0]["paths"]))
    for room, expected in ((1.5, [1, 0, 1, 0]), (2.5, [1, 1, 1, 0]), (0.5, [1, 0, 0, 0])):
        for place in ("page", "payload"):
            monkeypatch.setattr(f"idaq.report.{place}.MAX_PATH_BYTES", round(room * size))
        methods = page_payload([run.path])["runs"][0]["methods"]
        held = ["paths" in seed for method in methods for seed in method["seeds"]]
        assert held == [bool(each) for each in expected], "first seeds before others"


def test_which_runs(tmp_path: Path) -> None:
    for name in ("a/one", "a/two", "b"):
        make_run(tmp_path / name, methods=("posterior",), with_data=False)
    assert list(find_runs([tmp_path / "a", tmp_path / "b"])) == ["a/one", "a/two", "b"]
    assert list(find_runs([tmp_path / "b", tmp_path / "b"])) == ["b"]
    with pytest.raises(IdaqError, match="no run in"):
        find_runs([tmp_path / "nothing"])


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", methods=())
    run.groups_file.unlink()
    (shown,) = page_payload([run.path])["runs"]
    assert shown["rows"] == []
    assert shown["progress"]["state"] == "training"


def test_half_a_method_is_in_progress(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", methods=("posterior", "idaq-return"))
    run.result_file("posterior", 1).unlink()
    (shown,) = page_payload([run.path])["runs"]
    assert [row["method"] for row in shown["rows"]] == ["idaq-return"]
    assert shown["progress"] == {"state": "adapting", "updates": 0, "of": 0, "open": ["posterior"]}


def test_a_saved_summary_is_used_only_if_it_is_of_these_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", methods=("posterior",))
    summarise(run)
    with monkeypatch.context() as patch:
        patch.setattr(payload, "summary_of", lambda run: pytest.fail("computed again"))
        page_payload([run.path])
    write_json(run.groups_file, [[0]])
    assert page_payload([run.path])["runs"][0]["seeds"] == [0]


def test_what_is_served_changes_with_the_files(tmp_path: Path) -> None:
    source = Source([tmp_path])
    first = source.payload()
    assert first["runs"] == []
    assert first["live"] is True
    assert source.payload() is first
    make_run(tmp_path / "run", methods=("posterior",), with_data=False)
    second = source.payload()
    assert len(second["runs"]) == 1
    assert second["stamp"] != first["stamp"]


def test_a_port_in_use(tmp_path: Path) -> None:
    with make_server([tmp_path], 0) as server:
        port = int(server.server_address[1])
        with pytest.raises(IdaqError, match="Choose another `port`"):
            make_server([tmp_path], port)


# --- Large --------------------------------------------------------------------------------------


def fill_ml1(results: Path, sets: int, seeds: int, methods: int) -> None:
    """Run directories of ML1 with made-up numbers, as large as real ones."""
    rng = np.random.default_rng(0)
    names = ["idaq-return", "idaq-prediction-error", "idaq-prediction-variance", "posterior"]
    names = [*names, "expert-context", "posterior-zero"][:methods]
    config = AdaptConfig(num_reference_episodes=5, num_iterative_episodes=5, keep_percent=20.0)
    for row in EXPERIMENTS["ml1"].rows[:sets]:
        run = RunDir(results / row.name)
        write_manifest(run, row.family, config={"train": {"num_updates": 10}})
        write_json(run.groups_file, [[seed] for seed in range(seeds)])
        for name in names:
            write_json(run.adapt(name) / "config.json", {"config": to_dict(config)})
            for seed in range(seeds):
                shape = (10, 1 if name == "expert-context" else 10)
                arrays: dict[str, Any] = {
                    "tasks": np.arange(10),
                    "returns": rng.normal(2000.0, 900.0, shape).astype(np.float32),
                    "success": rng.random(shape) < 0.5,
                    "kept": rng.random(shape) < 0.3,
                    "hypotheses": rng.normal(size=(*shape, 20)).astype(np.float32),
                }
                if name.startswith("idaq"):
                    arrays["uncertainty"] = -arrays["returns"]
                np.savez_compressed(run.result_file(name, seed), **arrays)
        summarise(run)


@pytest.mark.slow
def test_fifty_sets_six_seeds_six_methods(tmp_path: Path) -> None:
    """In under ten seconds and 15 MB."""
    fill_ml1(tmp_path / "runs", 50, 6, 6)
    started = time.process_time()
    page = write_page([tmp_path / "runs"], tmp_path / "page.html")
    assert time.process_time() - started < 10.0
    assert page.stat().st_size < 15e6
    assert len(page_payload([tmp_path / "runs"])["runs"]) == 50
