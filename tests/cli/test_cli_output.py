"""What a run leaves behind and prints: summary, raw arrays, times, paths."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from idaq.envs.family import split_tasks
from idaq.runs.statistics import bootstrap_interval
from tests.program import (
    EPISODES,
    METHODS,
    RUN,
    TRAINING,
    Program,
    arrays_of,
    change_arrays,
    change_json,
    finish,
    start,
)

KEYS = ["family", "quality", "preset", "split", "seeds", "rows"]
ROW_KEYS = ["algo", "method", "mean", "ci95", "success", "episodes", "tasks"]
ROW_KEYS += ["anytime", "anytime_area", "anytime_area_ci95"]
ROW_KEYS += ["episodes_to_95", "episodes_to_95_ci95"]


def test_summary_schema(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    assert list(summary) == KEYS
    assert summary["family"] == "point-robot"
    assert summary["quality"] == "expert"
    assert summary["preset"] == "default"
    assert summary["split"] == "test"
    assert summary["seeds"] == [0, 1]
    assert [row["method"] for row in summary["rows"]] == list(METHODS)
    for row in summary["rows"]:
        assert list(row) == ROW_KEYS
        assert row["algo"] == "focal"
        assert isinstance(row["mean"], float)
        low, high = row["ci95"]
        assert low <= row["mean"] <= high
        assert row["success"] is None, "Point-Robot has no notion of success"
        assert row["tasks"] == 20
    assert [row["episodes"] for row in summary["rows"]] == [4, 1]


def test_summary_is_computed_from_the_raw_arrays(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    for row in summary["rows"]:
        per_seed = []
        for seed in summary["seeds"]:
            with np.load(run / "adapt" / row["method"] / f"seed-{seed:03d}.npz") as arrays:
                assert arrays["returns"].shape == (row["tasks"], row["episodes"])
                split = json.loads((run / f"seeds/seed-{seed:03d}/split.json").read_text())
                assert arrays["tasks"].tolist() == split["test"]
                assert not set(split["train"]) & set(split["test"])
                assert len(split["train"]) == 80
                per_seed.append(arrays["returns"][:, -1].astype(np.float64).mean())
        assert row["mean"] == np.mean(per_seed)
        assert row["ci95"] == list(bootstrap_interval(np.asarray(per_seed)))


def test_raw_arrays_say_what_was_kept_and_why(run: Path) -> None:
    with np.load(run / "adapt" / METHODS[0] / "seed-000.npz") as arrays:
        shapes = {name: arrays[name].shape for name in arrays}
    assert shapes["uncertainty"] == shapes["kept"] == shapes["returns"] == (20, 4)
    assert shapes["threshold"] == (20,)
    assert shapes["observations"] == (20, 4, 21, 2)


def test_wall_times_are_in_timing_alone(run: Path) -> None:
    times = json.loads((run / "timing.json").read_text())
    assert set(times) == {
        "collect_s",
        "train_seeds_0_to_0_s",
        "train_seeds_1_to_1_s",
        *(f"adapt_{method}_s" for method in METHODS),
    }
    assert all(isinstance(seconds, float) and seconds >= 0 for seconds in times.values())
    for file in [*run.rglob("*.json"), *run.rglob("*.jsonl")]:
        if file.name != "timing.json":
            assert not re.search(r"_s\"|seconds|wall|(?<!any)time", file.read_text())
    for file in run.rglob("*.npz"):
        with np.load(file) as arrays:
            assert not [name for name in arrays if re.search("_s$|(?<!any)time|seconds", name)]


def test_the_run_says_how_it_was_made(run: Path) -> None:
    manifest = json.loads((run / "run.json").read_text())
    assert set(manifest["identity"]["config"]) == {"algorithm", "train", "adapt"}
    assert manifest["identity"]["data"] == {"trajectories": 2, "seed": 0, "quality": "expert"}
    assert {"python", "idaq", "jax", "jaxlib", "numpy"} <= set(manifest["provenance"]["versions"])
    assert "git" in manifest["provenance"]


def test_one_line_of_metrics_per_log_interval(run: Path) -> None:
    lines = (run / "seeds/seed-000/metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["update"] for row in rows] == [1, 2, 3, 4, 5]
    assert all({"q_loss", "policy_loss", "metric_loss", "model_loss"} <= set(row) for row in rows)


def test_tensorboard_reads_the_event_files(run: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    (file,) = (run / "seeds/seed-000/tensorboard").iterdir()
    events = list(loader.RawEventFileLoader(str(file)).Load())
    assert len(events) == 1 + 5


def test_json_is_all_that_stdout_gets(idaq: Program, tmp_path: Path) -> None:
    out = tmp_path / "run"
    outcome = idaq(*RUN, "--seeds", "1", "--out", out, "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out) == json.loads((out / "summary.json").read_text())
    assert "training point-robot: 5/5 updates" in outcome.err
    assert f"results: {out}" in outcome.err
    reported = idaq("report", out, "--json")
    assert reported.out == outcome.out


def test_the_table_for_people(idaq: Program, run: Path) -> None:
    outcome = idaq("report", run)
    assert outcome.code == 0
    for text in (*METHODS, "paper", "-5.70", "2 seeds"):
        assert text in outcome.out


def test_paths_are_printed_as_they_are(idaq: Program, tmp_path: Path) -> None:
    """Neither wrapped nor taken for markup, so that they can be copied."""
    place = tmp_path / "[bold]a b[/bold] *?'x" / ("long" * 30)
    collected = idaq("collect", "point-robot", "--trajectories", "2", "--out", place / "data")
    assert collected.code == 0
    assert collected.out.startswith(f"{place / 'data'}: 100 tasks, 200 episodes, 4,000 trans")
    out = place / "run"
    train = ("train", "--data", place / "data", "--out", out, "--seeds", "1", *TRAINING)
    outcome = idaq(*train)
    assert outcome.code == 0
    assert outcome.out == f"trained seeds 0: {out}\n"
    assert f"idaq adapt {out} " in outcome.err
    assert f"'{out}'" in idaq(*train).err
    adapted = idaq("adapt", out, "--method", "expert-context", *EPISODES, "--json")
    assert adapted.code == 0
    assert [row["method"] for row in json.loads(adapted.out)["rows"]] == ["expert-context"]


def test_default_directories(
    idaq: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert idaq("collect", "point-robot", "--trajectories", "2").code == 0
    assert (tmp_path / "data/point-robot/metadata.json").is_file()
    assert idaq("train", "--data", "data/point-robot", "--seeds", "1", *TRAINING).code == 0
    assert (tmp_path / "runs/point-robot-default/run.json").is_file()


def test_results_under_a_name_of_their_own(idaq: Program, run: Path) -> None:
    adapt = ("adapt", run, "--method", METHODS[0], "--name", "k-100", "--k", "100", "--json")
    outcome = idaq(*adapt, *EPISODES)
    assert outcome.code == 0
    rows = json.loads(outcome.out)["rows"]
    assert [row["method"] for row in rows] == [*METHODS, "k-100"]
    assert (run / "adapt/k-100/seed-001.npz").is_file()
    # a seed more, and the results under that name are incomplete: said, not hidden
    outcome = idaq(*RUN, "--seeds", "3", "--out", run, "--resume", "--json")
    assert [row["method"] for row in json.loads(outcome.out)["rows"]] == list(METHODS)
    assert "k-100: not all seeds have results" in outcome.err
    outcome = idaq(*adapt, *EPISODES, "--resume")
    assert [row["method"] for row in json.loads(outcome.out)["rows"]] == [*METHODS, "k-100"]


def test_a_whole_budget_is_split_into_halves(idaq: Program, run: Path) -> None:
    adapt = ("adapt", run, "--method", METHODS[0], "--name", "budget", "--json")
    outcome = idaq(*adapt, "--episodes", "5")
    assert outcome.code == 0, outcome.err
    config = json.loads((run / "adapt/budget/config.json").read_text())["config"]
    assert (config["num_reference_episodes"], config["num_iterative_episodes"]) == (2, 3)
    again = idaq(*adapt, "--n-r", "2", "--n-i", "3", "--resume")
    assert json.loads(again.out) == json.loads(outcome.out)
    row = json.loads(outcome.out)["rows"][-1]
    assert (row["method"], row["episodes"]) == ("budget", 5)
    assert len(row["anytime"]["mean"]) == 5
    assert row["anytime"]["mean"][-1] == row["mean"]
    given = idaq("adapt", run, "--method", METHODS[1], "--resume", "--episodes", "4")
    assert given.code == 0, given.err
    assert f"--episodes makes no difference to '{METHODS[1]}'" in given.err


def test_diverged_training_is_an_error(idaq: Program, data: Path, tmp_path: Path) -> None:
    """Extreme but finite data: no agent of NaNs is written, and it ends at the first NaN."""
    rewards = arrays_of(data)["rewards"]
    change_arrays(data, rewards=np.where(rewards > -0.5, 3e38, -3e38).astype(np.float32))
    train = ("train", "--data", data, "--out", tmp_path / "new", "--seeds", "1", *TRAINING)
    outcome = idaq(*train, "--set", "algorithm.normalise=false")
    assert outcome.code == 2
    assert "seed 0 diverged within" in outcome.err
    lines = (tmp_path / "new" / "seeds" / "seed-000" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) < 5
    assert "NaN" in lines[-1]
    assert not list((tmp_path / "new").rglob("agent.safetensors"))


def test_too_little_memory_is_an_error(
    idaq: Program, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(*arguments: object, **options: object) -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 320000032000 bytes.")

    monkeypatch.setattr("idaq.runs.adapt_stage.evaluate", evaluate)
    outcome = idaq("adapt", run, "--method", METHODS[0], "--name", "big", *EPISODES)
    assert outcome.code == 2
    assert "not enough memory" in outcome.err
    assert not (run / "adapt/big").exists()


def test_a_mistake_of_ours_is_not_hidden(
    idaq: Program, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(*arguments: object, **options: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr("idaq.runs.adapt_stage.evaluate", evaluate)
    with pytest.raises(RuntimeError, match="unexpected"):
        idaq("adapt", run, "--method", METHODS[0], "--name", "big", *EPISODES)


def test_a_platform_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    outcome = finish(start(*RUN, "--out", tmp_path / "run"))
    assert outcome.code == 2
    assert "JAX_PLATFORMS" in outcome.err
    assert "Traceback" not in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_validation_never_touches_test_tasks(idaq: Program, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = (*RUN, "--seeds", "1", "--out", out, "--split", "validation", "--json")
    outcome = idaq(*command)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["split"] == "validation"
    hidden = set(split_tasks(100, 0).test.tolist())
    split = json.loads((out / "seeds/seed-000/split.json").read_text())
    assert not hidden & {*split["train"], *split["test"]}


def test_older_versions_of_a_family_do_not_mix(idaq: Program, run: Path) -> None:
    change_json(run / "run.json", "identity", "family_version", to=0)
    outcome = idaq(*RUN, "--seeds", "2", "--out", run, "--resume")
    assert outcome.code == 2
    assert "family_version: 0 there, 1 here" in outcome.err
