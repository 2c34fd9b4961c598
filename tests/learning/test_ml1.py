"""Agents learn on a real Meta-World set: a robot arm slides a plate to a place it must find out.

Small networks, three trajectories per task and half the default number of episodes: about two
minutes on two cores, where the preset takes ten thousand updates.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from idaq.config import override
from idaq.envs import get_family
from idaq.runs.api import adapt_all, run_all, train_all
from idaq.runs.directory import RunDir
from idaq.runs.resolve import resolve, with_ensemble_size
from idaq.runs.train_stage import Seeds
from idaq.settings import RunConfig

FAMILY = "ml1/plate-slide-side"
METHODS = ("idaq-return", "posterior", "expert-context")


def config(num_updates: int) -> RunConfig:
    result = resolve("default", FAMILY)
    for setting in (
        "algorithm.encoder_hidden=[64,64]",
        "algorithm.learner.hidden=[64,64]",
        f"train.num_updates={num_updates}",
        "adapt.num_reference_episodes=3",
        "adapt.num_iterative_episodes=2",
    ):
        result = override(result, setting)
    return with_ensemble_size(result, 0)


@pytest.mark.slow
def test_plate_slide_side(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """The paper's own scores: IDAQ 1.07, posterior 0.70, expert context 0.75."""
    pytest.importorskip("metaworld")
    run = RunDir(tmp_path / "run")
    summary = run_all(
        run,
        get_family(FAMILY),
        config=config(2500),
        methods=METHODS,
        seeds=Seeds(count=2),
        trajectories=3,
    )
    found = {row["method"]: row for row in summary["rows"]}
    for method, row in found.items():
        record_property(method, (row["score"], row["success"]))
    assert found["idaq-return"]["success"] >= 0.9, found
    assert found["idaq-return"]["score"] >= 0.85, found
    assert found["idaq-return"]["score"] >= found["posterior"]["score"] - 0.05, found
    assert found["expert-context"]["score"] >= 0.6, found

    untrained = RunDir(tmp_path / "untrained")
    train_all(untrained, run.data, config=config(1), seeds=Seeds(count=1))
    (row,) = adapt_all(untrained, "expert-context")["rows"]
    assert row["score"] <= 0.2, "an agent that has not learned does not solve this"
