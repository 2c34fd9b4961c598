"""The program with each algorithm, and what it says of methods that are not an algorithm's."""

import json
from pathlib import Path

import numpy as np
import pytest

from idaq.algos.entries import ALGORITHMS
from tests.program import SMALL_NETWORKS, Program, change_json

SCALE = (
    *("--updates", "4", "--trajectories", "2", "--n-r", "2", "--n-i", "2", "--seeds", "1"),
    *("--set", "train.log_every_updates=1", "train.checkpoint_every_updates=2"),
)
METHODS = {
    "op-cl": {"idaq-return", "idaq-prediction-error", "posterior"},
    "macaw": {"idaq-return", "fine-tuning", "expert-context"},
    "borel": {"belief", "expert-context"},
}


def command(algorithm: str, out: Path, *more: str) -> tuple[object, ...]:
    chosen = ("--methods", *sorted(METHODS[algorithm])) if algorithm == "op-cl" else ()
    options = ("--algorithm", algorithm, *chosen, *SCALE, *SMALL_NETWORKS[algorithm], "--out", out)
    return ("run", "point-robot", *options, *more)


@pytest.mark.parametrize("algorithm", SMALL_NETWORKS)
def test_data_to_summary(idaq: Program, tmp_path: Path, algorithm: str) -> None:
    outcome = idaq(*command(algorithm, tmp_path / "a", "--json"))
    assert outcome.code == 0, outcome.err
    summary = json.loads(outcome.out)
    assert {row["method"] for row in summary["rows"]} == METHODS[algorithm]
    for row in summary["rows"]:
        assert row["algo"] == algorithm
        assert np.isfinite(row["mean"])
        assert row["tasks"] == 20
        assert row["episodes"] == (1 if row["method"] == "expert-context" else 4)
    metrics = (tmp_path / "a/seeds/seed-000/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update"] for line in metrics] == [1, 2, 3, 4]
    if algorithm == "borel":  # each phase logs what it trains
        names = [set(json.loads(line)) - {"update"} for line in metrics]
        assert names[0] == names[1] == {"vae_loss", "reconstruction", "kl"}
        assert names[2] == names[3] >= {"q_loss", "policy_loss"}
    again = idaq(*command(algorithm, tmp_path / "a", "--json", "--resume"))
    assert json.loads(again.out) == summary


def test_train_and_adapt_one_by_one(idaq: Program, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = ("--set", *SMALL_NETWORKS["macaw"])
    options = ("--algorithm", "macaw", "--updates", "2", "--seeds", "1", *settings)
    outcome = idaq("train", "--data", data, "--out", run, *options)
    assert outcome.code == 0, outcome.err
    assert f"idaq adapt {run} --method idaq-return" in outcome.err
    outcome = idaq("adapt", run, "--method", "fine-tuning", "--n-r", "2", "--n-i", "2", "--json")
    assert outcome.code == 0, outcome.err
    assert [row["method"] for row in json.loads(outcome.out)["rows"]] == ["fine-tuning"]
    saved = np.load(run / "adapt/fine-tuning/seed-000.npz")
    assert saved["returns"].shape == (20, 4)
    assert saved["kept"].tolist() == [[True, True, True, False]] * 20


def test_methods_of_other_algorithms_are_refused(
    refused: Program, run: Path, tmp_path: Path
) -> None:
    refused("adapt", run, "--method", "belief", names=("'belief'", "'focal'", "idaq-return"))
    refused("adapt", run, "--method", "fine-tuning", names=("'fine-tuning'", "'focal'"))
    for algorithm, method in (("macaw", "idaq-prediction-error"), ("borel", "posterior-zero")):
        arguments = command(algorithm, tmp_path / "new", "--methods", method)
        refused(*arguments, names=(f"'{method}'", f"'{algorithm}'"))


@pytest.mark.parametrize(
    ("algorithm", "options", "name"),
    [
        ("macaw", ("--ensemble-size", "4"), "--ensemble-size"),
        ("borel", ("--updates", "2"), "algorithm.vae_updates"),
        ("op-cl", ("--set", 'algorithm.learner={"kind":"bc"}'), "lacks"),
        ("macaw", ("--set", "algorithm.latent_dim=3"), "algorithm.latent_dim"),
    ],
)
def test_options_that_an_algorithm_does_not_have(
    refused: Program, tmp_path: Path, algorithm: str, options: tuple[str, ...], name: str
) -> None:
    refused(*command(algorithm, tmp_path / "new", *options), names=(name,))


def test_relabelling_needs_a_family_that_computes_rewards(refused: Program, tmp_path: Path) -> None:
    options = ("--algorithm", "borel", "--set", "algorithm.relabel=true")
    refused("run", "ml1/push", *options, "--out", tmp_path / "new", names=("ml1/push", "relabel"))


def test_runs_from_before_algorithms_had_names_go_on(idaq: Program, run: Path) -> None:
    """Their saved configuration does not say which algorithm it is of."""
    saved = json.loads((run / "run.json").read_text())
    algorithm = saved["identity"]["config"]["algorithm"]
    assert algorithm.pop("kind") == "focal"
    change_json(run / "run.json", "identity", "config", "algorithm", to=algorithm)
    for arguments in (("--method", "posterior"), ("--method", "idaq-prediction-error", "--resume")):
        outcome = idaq("adapt", run, *arguments, "--n-r", "2", "--n-i", "2")
        assert outcome.code == 0, outcome.err


def test_list_names_the_algorithms(idaq: Program) -> None:
    listed = json.loads(idaq("list", "--json").out)
    assert listed["algorithms"] == list(ALGORITHMS)
    of = {method["name"]: method["algorithms"] for method in listed["methods"]}
    assert of["fine-tuning"] == ["macaw"]
    assert of["idaq-return"] == list(ALGORITHMS)
