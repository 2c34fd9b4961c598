"""Run directories made by an earlier version are read, resumed, adapted and reported.

`before/finished` and `before/killed` come from one command, with preset `default` and tiny
networks; the second was stopped after four of its five updates. `before/macaw` has the settings of
fine-tuning where they were at the time. All were made by the code at commit 06670f1.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from idaq.judges.base import JUDGES
from idaq.report import figures
from idaq.report.page import write_page
from idaq.runs.results import load_results, thresholds
from idaq.runs.run import Run
from idaq.settings import AdaptConfig
from tests.program import Program, idaq, no_figures

__all__ = ["idaq", "no_figures"]  # fixtures

WRITE_FIGURES = figures.write_figures  # before a fixture replaces it
BEFORE = Path(__file__).with_name("before")
NETWORKS = (
    *("algorithm.encoder_hidden=[8]", "algorithm.learner.hidden=[8]"),
    *("algorithm.ensemble.hidden=[8]", "algorithm.ensemble.size=2", "algorithm.latent_dim=2"),
    *("algorithm.batch_size=4", "algorithm.context_size=4", "algorithm.meta_batch_size=2"),
    *("train.log_every_updates=1", "train.checkpoint_every_updates=2"),
    # preset `default` has another search since, which the agent remembers logs for
    *("algorithm.logged_rows=0", "adapt.reference=farthest-first", "adapt.iterate=untried"),
)
METHOD = "idaq-prediction-error"
OPTIONS = ("--n-r", 2, "--n-i", 2, "--trajectories", 1, "--resume", "--json")
RUN = ("run", "point-robot", "--seeds", 1, "--updates", 5, "--set", *NETWORKS, *OPTIONS)


@pytest.fixture
def before(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of one of these directories."""
    return Path(shutil.copytree(BEFORE / str(request.param), tmp_path / str(request.param)))


@pytest.mark.parametrize("before", ["finished"], indirect=True)
def test_a_finished_run_is_read_and_reported(idaq: Program, before: Path, tmp_path: Path) -> None:
    saved = json.loads((before / "summary.json").read_text())
    outcome = idaq("report", before, "--json")
    assert (outcome.code, json.loads(outcome.out)) == (0, saved)
    assert [file.name for file in WRITE_FIGURES(Run.open(before))]
    page = write_page([before], tmp_path / "page.html")
    assert "IDAQ, prediction error" in page.read_text()
    results = load_results(before, METHOD, 0)
    shown = thresholds(results, AdaptConfig(num_reference_episodes=2, num_iterative_episodes=2))
    np.testing.assert_array_equal(
        results["kept"][:, :2], results["uncertainty"][:, :2] <= shown[:, :2]
    )


@pytest.mark.parametrize("before", ["finished"], indirect=True)
def test_a_finished_run_is_adapted_again(idaq: Program, before: Path) -> None:
    old = load_results(before, METHOD, 0)
    assert idaq("adapt", before, "--method", METHOD, "--name", "again").code == 0
    new = load_results(before, "again", 0)
    assert set(new) == {*old, "thresholds", "anytime_returns", "anytime_hypotheses"}
    for name, value in old.items():
        np.testing.assert_allclose(value, new[name], rtol=1e-4, atol=1e-4, err_msg=name)
    outcome = idaq("adapt", before, "--method", METHOD, "--resume", "--json")
    assert outcome.code == 0, "its results are those of the same options and version"


@pytest.mark.parametrize("before", ["finished"], indirect=True)
def test_a_run_of_the_first_version_of_a_part_is_refused_by_the_second(
    idaq: Program, before: Path
) -> None:
    """Its `run.json` does not name the part."""
    judge = replace(JUDGES["ensemble"], version=2)
    with JUDGES.registered(judge):
        outcome = idaq("adapt", before, "--method", METHOD, "--name", "again")
    assert outcome.code == 2
    message = " ".join(outcome.err.split())
    assert "is of version 1 of 'judge ensemble'; this idaq has version 2" in message


@pytest.mark.parametrize("before", ["killed"], indirect=True)
def test_a_killed_run_goes_on_where_it_stopped(idaq: Program, before: Path) -> None:
    (checkpoint,) = (before / "train").iterdir()
    outcome = idaq(*RUN, "--methods", METHOD, "--out", before)
    assert outcome.code == 0, outcome.err
    assert not checkpoint.exists()
    expected = json.loads((BEFORE / "finished" / "summary.json").read_text())
    (row,), (wanted,) = json.loads(outcome.out)["rows"], expected["rows"]
    assert row["mean"] == pytest.approx(wanted["mean"], rel=1e-4)
    lines = [
        (each / "seeds/seed-000/metrics.jsonl").read_text()
        for each in (before, BEFORE / "finished")
    ]
    updates = [[json.loads(line)["update"] for line in text.splitlines()] for text in lines]
    assert updates[0] == updates[1] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("before", ["macaw"], indirect=True)
def test_settings_that_have_moved_are_found(idaq: Program, before: Path) -> None:
    adapt = Run.open(before).config.adapt
    assert (adapt.fine_tuning_steps, adapt.fine_tuning_rate) == (2, 0.01)
    old = load_results(before, "fine-tuning", 0)
    assert idaq("adapt", before, "--method", "fine-tuning", "--name", "again").code == 0
    new = load_results(before, "again", 0)
    np.testing.assert_allclose(old["returns"], new["returns"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("before", ["macaw"], indirect=True)
def test_a_run_with_settings_that_have_moved_is_resumed(idaq: Program, before: Path) -> None:
    """By exactly the command that started it then."""
    settings = (
        *("algorithm.hidden=[8]", "algorithm.code_dim=4", "algorithm.meta_batch_size=2"),
        *("algorithm.inner_batch_size=4", "algorithm.outer_batch_size=4"),
        *("algorithm.fine_tuning_steps=2", "algorithm.fine_tuning_rate=0.01"),
        "adapt.num_expert_episodes=1",
    )
    command = ("run", "point-robot", "--algorithm", "macaw", "--seeds", 1, "--updates", 3)
    methods = ("--methods", "fine-tuning", "posterior")
    outcome = idaq(*command, "--set", *settings, *OPTIONS, *methods, "--out", before)
    assert outcome.code == 0, outcome.err
    rows = json.loads(outcome.out)["rows"]
    assert [row["method"] for row in rows] == ["posterior", "fine-tuning"]
