"""Trials behind the preset `default` on Point-Robot: training tasks only, one JSON line each.

    python results/tuning/tune_point_robot.py results/tuning/point-robot.jsonl

Every trial trains on 64 of a seed's 80 training tasks and adapts to the other 16; the seed's 20
test tasks are never touched. Seeds 100 to 103 are used for nothing else.
"""

import json
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from idaq.config import override
from idaq.envs import get_family
from idaq.runs.api import adapt_all, run_all
from idaq.runs.directory import RunDir
from idaq.runs.resolve import resolve
from idaq.runs.train_stage import Seeds

SEEDS = Seeds(count=4, first=100)
METHODS = ("idaq-return", "idaq-prediction-error", "posterior", "expert-context")
GREEDY: dict[str, Any] = {"reference": "farthest-first", "accept": "improvement", "final": "best"}
UNTRIED = GREEDY | {"iterate": "untried"}
BASE = (
    "algorithm.encoder_hidden=[128,128]",
    "algorithm.learner.hidden=[128,128]",
    "algorithm.batch_size=64",
    "algorithm.context_size=64",
    "algorithm.learner.discount=0.9",
    "algorithm.learner.bc_weight=1.0",
    "train.num_updates=2000",
)
LEARNERS: dict[str, tuple[str, ...]] = {
    "base": (),
    "updates 1000": ("train.num_updates=1000",),
    "updates 4000": ("train.num_updates=4000",),
    "behaviour cloning weight 0.5": ("algorithm.learner.bc_weight=0.5",),
    "behaviour cloning weight 2": ("algorithm.learner.bc_weight=2.0",),
    "discount 0.8": ("algorithm.learner.discount=0.8",),
    "discount 0.95": ("algorithm.learner.discount=0.95",),
    "discount 0.99": ("algorithm.learner.discount=0.99",),
    "learning rate 1e-3": (
        "algorithm.learner.learning_rate=0.001",
        "algorithm.encoder_learning_rate=0.001",
    ),
    "learner's learning rate 1e-3": ("algorithm.learner.learning_rate=0.001",),
    "hidden 64, 64": ("algorithm.encoder_hidden=[64,64]", "algorithm.learner.hidden=[64,64]"),
}
ADAPTATIONS: dict[str, dict[str, Any]] = {
    "as in the paper": {"reference": "farthest", "accept": "threshold", "final": "posterior"},
    "released code": {"reference": "farthest", "accept": "improvement", "final": "best"},
    "farthest-first": GREEDY,
    "farthest-first, untried": UNTRIED,
    "plain prior, untried": UNTRIED | {"reference": "prior"},
    "untried, threshold, posterior": {
        "reference": "farthest-first",
        "iterate": "untried",
        "accept": "threshold",
        "final": "posterior",
    },
    "untried, improvement, posterior": UNTRIED | {"final": "posterior"},
    "untried, n_r = 6": UNTRIED | {"num_reference_episodes": 6, "num_iterative_episodes": 14},
    "untried, n_r = 8": UNTRIED | {"num_reference_episodes": 8, "num_iterative_episodes": 12},
    "untried, n_r = 12": UNTRIED | {"num_reference_episodes": 12, "num_iterative_episodes": 8},
}
FULL_TRIALS = ("base", "updates 4000")  # every adaptation is tried on these


def trial(family_name: str, learner: str, directory: Path) -> dict[str, Any]:
    """Train one configuration and adapt with the adaptations of interest."""
    family = get_family(family_name)
    config = resolve("default", family_name)
    settings = (*BASE, *LEARNERS[learner])
    for assignment in settings:
        config = override(config, assignment)
    run = RunDir(directory)
    summary = run_all(
        run,
        family,
        preset="default",
        config=replace(config, adapt=replace(config.adapt, **UNTRIED)),
        methods=METHODS,
        seeds=SEEDS,
        split="validation",
        quiet=True,
    )
    if learner in FULL_TRIALS:
        paper = replace(config.adapt, iterate="posterior")
        for name, options in ADAPTATIONS.items():
            for method in METHODS[:2]:
                label = f"{method}-{re.sub('[^a-z0-9_]+', '-', name)}"
                options_of_trial = replace(paper, **options)
                summary = adapt_all(run, method, config=options_of_trial, name=label)
    scores = {row["method"]: [row["mean"], *row["ci95"]] for row in summary["rows"]}
    return {
        "family": family_name,
        "trial": learner,
        "settings": settings,
        "seeds": summary["seeds"],
        "split": summary["split"],
        "scores": scores,
    }


def main(out: Path) -> None:
    """Run every trial that is not in the file yet."""
    done = set()
    if out.is_file():
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        done = {(row["family"], row["trial"]) for row in rows}
    for learner in LEARNERS:
        for family in ("point-robot", "point-robot-sparse"):
            if (family, learner) in done:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                row = trial(family, learner, Path(scratch) / "run")
            with out.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
            print(
                family, learner, {k: round(v[0], 2) for k, v in row["scores"].items()}, flush=True
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
